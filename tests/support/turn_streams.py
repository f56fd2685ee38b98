"""Turns of an edge as asynchronous generators. Closing a generator is the caller's disconnection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from antiphon_core.flow import Flow
from antiphon_core.ports.translator import Batch
from antiphon_core.request.body import CreateRequest
from antiphon_edge.turns.turn_service import TurnService
from tests.support.pushed import pulled


def sent(turns: TurnService, tenant: str, request: CreateRequest, **options: Any) -> AsyncGenerator[Batch, None]:
    """Returns a generator of the batches that `TurnService.send` sends."""

    async def run(take: Callable[[Batch], object]) -> None:
        await turns.send(tenant, request, lambda batch: _void(take(batch)), Flow(), **options)

    return pulled(run)


def _void(_value: object) -> None:
    """Drops the value: a receiver returns nothing."""
