"""In which tree a turn in a session is named: that of what the session continues.

The id of a conversation tells its tree. A session that was named by a client does not, so its last response is asked:
the store refuses a response that is named in another tree than its parent. Where there is none yet, the tree follows
from the name: of several first turns at the same time each continues the one before, so all must be of one tree.
"""

from __future__ import annotations

from dataclasses import replace

from antiphon_core.ids import DerivedIds, Ids, new_conversation_id, new_response_id, tree_tag
from antiphon_core.ports.store import ResponseStore, TurnRequest


async def placed(store: ResponseStore, tenant: str, asked: TurnRequest, ids: Ids) -> TurnRequest:
    """Returns the turn with its response named in the tree of its session."""
    if asked.session_id is None or tree_tag(asked.session_id) is not None:
        return asked
    head_id = (await store.describe_session(tenant, asked.session_id)).head_id
    response_id = new_response_id(ids, relative=head_id or _root_of(tenant, asked.session_id))
    return replace(asked, response_id=response_id, holder=response_id)


def _root_of(tenant: str, session_id: str) -> str:
    """An id in the tree of a session that has nothing in it yet. Its tag can be worked out, which opens nothing: the
    rest of a response's id is random."""
    return new_conversation_id(DerivedIds(f"session\n{tenant}\n{session_id}"))
