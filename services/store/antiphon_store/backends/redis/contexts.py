"""The context of a session without the items that were taken out of it.

Scripts do not look into items: they say what was taken out, and name the state that they saw (lua/parts/contexts.lua).
The rest is done here. Who then wants to write comes back with that state, and has to look again if it is another now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from antiphon_core import limits
from antiphon_core.ports.store import History
from antiphon_store.backends import conversations
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.redis import answers
from antiphon_store.backends.redis.calls import Argument

LOOKS_MAX = 16  # each after the first because somebody else changed the session in between


@dataclass(frozen=True, slots=True)
class Look:
    """A context, and the name of the state that it is of; empty when nobody looked yet."""

    state: str = ""
    history: History = field(default_factory=History)


def context_arguments(bounds: ChainBounds, seen: Look) -> list[Argument]:
    """As `parse_bounds` in lua/parts/contexts.lua reads them."""
    return [bounds.max_depth, bounds.max_bytes, limits.CHAIN_BYTES_MAX, seen.state]


def look(answer: Sequence[Any], bounds: ChainBounds) -> Look:
    """ChainTooLong: what is left is longer than the bounds allow."""
    state, removed, head_id, metas, items = answer
    whole = answers.history(head_id.decode(), (metas, items))
    removed_ids = frozenset(item_id.decode() for item_id in removed)
    return Look(state.decode(), conversations.read_context(removed_ids, bounds, lambda _wide: whole))
