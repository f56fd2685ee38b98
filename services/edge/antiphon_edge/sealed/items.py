"""Opens all sealed content in the items of a request, and seals all content of a response."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.jsons import Object
from antiphon_core.ports.translator import Batch, Turn
from antiphon_core.request.context import TRIGGER
from antiphon_edge.sealed import compaction as sealed_compaction
from antiphon_edge.sealed import context as sealed_context
from antiphon_edge.sealed import reasoning as sealed_reasoning
from antiphon_edge.sealed.compaction import CompactionSealer
from antiphon_edge.sealed.reasoning import Change
from antiphon_edge.sealed.sealing import Sealer


def open_items(items: Sequence[Object], sealer: Sealer, tenant: str, *, where: str = "input") -> list[Object]:
    """The items of a request, with sealed content opened. InvalidRequest: an item cannot be opened; names its path."""
    return sealed_compaction.open_items(
        sealed_reasoning.open_items(items, sealer, tenant, where=where), sealer, tenant, where=where
    )


MARKS = (sealed_reasoning.INCLUDE.encode(), b"context_management", TRIGGER.encode())
"""One of them is in the request or the input of every turn whose response may have content to seal."""


def changes_of(
    tenant: str, turn: Turn, sealer: Sealer, *, sent: Sequence[Object] = (), with_context: bool = True
) -> Change | None:
    """Returns the function that seals the content of each batch of a turn; None for most turns, which have nothing to
    seal.

    `sent`: output items that were sent before; they keep their sealed text. `with_context`: the turn is not stored, so
    its client needs the sealed context to continue it."""
    changes: list[Change] = []
    is_named = sealed_reasoning.INCLUDE.encode() in turn.request  # few requests are parsed
    reasoning = sealed_reasoning.sealer_of(tenant, turn, sealer, sent=sent) if is_named else None
    if reasoning is not None:
        changes.append(reasoning)
        if with_context:
            changes.append(sealed_context.sealer_of(tenant, turn, sealer))
    if b"context_management" in turn.request or TRIGGER.encode() in turn.input:
        changes.append(CompactionSealer(sealer, tenant))
    return _one_after_the_other(changes) if changes else None


def _one_after_the_other(changes: Sequence[Change]) -> Change:
    def change(batch: Batch) -> Batch:
        for each in changes:
            batch = each(batch)
        return batch

    return change
