"""In which tree a turn in a session is named: that of what the session continues.

The id of a conversation tells its tree. A session that was named by a client does not, so its last response is asked:
the store refuses a response that is named in another tree than its parent.
"""

from __future__ import annotations

from antiphon_core.ids import tree_tag
from antiphon_core.ports.store import ResponseStore


async def relative_of(store: ResponseStore, tenant: str, session_id: str | None) -> str | None:
    """An id in that tree; None when the turn begins a tree of its own."""
    if session_id is None or tree_tag(session_id) is not None:
        return session_id
    return (await store.describe_session(tenant, session_id)).head_id
