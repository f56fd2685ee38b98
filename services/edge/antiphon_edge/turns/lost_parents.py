"""Committing a turn whose parent was deleted while it ran, or came to the end of its time.

A turn is given its history when it begins; what becomes of its parent later is no reason to lose it. The store keeps
nothing for turns that it does not know of, so such a turn is committed as the first of a chain of its own, with the
history that it was given as the beginning of its input.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from antiphon_core.errors import ResponseNotFound
from antiphon_edge.turns.accepted_turn import AcceptedTurn

log = logging.getLogger(__name__)


async def committed(accepted: AcceptedTurn, commit: Callable[[AcceptedTurn], Awaitable[object]]) -> AcceptedTurn:
    """Commits the turn, as a root if its parent is gone: the turn as it is stored now."""
    try:
        await commit(accepted)
        return accepted
    except ResponseNotFound as error:
        if accepted.parent_id is None or error.facts.get("id") != accepted.parent_id:
            raise
    log.info("%s was deleted while %s ran, which takes its history with it", accepted.parent_id, accepted.response_id)
    root = accepted.as_root()
    await commit(root)
    return root
