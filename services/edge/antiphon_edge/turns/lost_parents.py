"""Commits turns whose parent was deleted, or expired, while they ran.

Such a turn has read its history already, and does not need its parent. It is committed as a root, the first response of
a new chain, with its history at the beginning of its input.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from antiphon_core.errors import ResponseNotFound
from antiphon_edge.turns.accepted_turn import AcceptedTurn

log = logging.getLogger(__name__)


async def committed(accepted: AcceptedTurn, commit: Callable[[AcceptedTurn], Awaitable[object]]) -> AcceptedTurn:
    """Commits the turn, as a root if its parent is gone. Returns the turn as it was stored."""
    try:
        await commit(accepted)
        return accepted
    except ResponseNotFound as error:
        if accepted.parent_id is None or error.facts.get("id") != accepted.parent_id:
            raise
    log.info("the parent %s is gone: %s is stored as a root", accepted.parent_id, accepted.response_id)
    root = accepted.as_root()
    await commit(root)
    return root
