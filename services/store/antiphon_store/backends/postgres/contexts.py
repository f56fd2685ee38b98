"""The context of a session out of the rows that the database gives: a history, less what was taken out by hand."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from antiphon_core.ports.store import History
from antiphon_store.backends import conversations
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.node_rows import Row
from antiphon_store.backends.postgres import rows


def removed_of(item_ids: Sequence[bytes] | None) -> frozenset[str]:
    """The ids of the items that were taken out, of which there may be none."""
    return frozenset(item_id.decode() for item_id in item_ids or ())


def context_of(turns: Sequence[Row], head_id: str, removed: Collection[str], bounds: ChainBounds) -> History:
    """`turns` are the rows of `history` that end in `head_id`. ChainTooLong."""

    def read(wide: ChainBounds) -> History:
        return rows.history_of(turns, replace(wide, response_id=head_id)) or History()

    return conversations.read_context(removed, bounds, read)
