"""The turns of an edge, over a store and a translator of a test."""

from __future__ import annotations

from typing import Any

from antiphon_core.clock import Clock
from antiphon_core.ids import RandomIds
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.translator import Translator
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.quotas.metering import Meter
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.turn_settings import SEALED_TTL_S
from antiphon_edge.turns.turn_parts import TurnParts
from antiphon_edge.turns.turn_parts import turn_service as build
from antiphon_edge.turns.turn_service import TurnService


def turn_parts(
    store: FullStore, translator: Translator, *, clock: Clock, sealer: Sealer | None = None, **options: Any
) -> TurnParts:
    """Without a `sealer`, content is sealed with keys of its own."""
    sealer = sealer or Sealer(SealingKeys.ephemeral(), ttl_s=SEALED_TTL_S, clock=clock)
    return TurnParts.of(store, translator, clock=clock, ids=RandomIds(), sealer=sealer, **options)


def turn_service(
    store: FullStore, translator: Translator, *, clock: Clock, meter: Meter | None = None, **options: Any
) -> TurnService:
    parts = turn_parts(store, translator, clock=clock, **options)
    return build(parts, meter=meter or Meter())
