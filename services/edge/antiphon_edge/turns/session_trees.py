"""In which tree a turn in a session is named: that of what the session continues.

The id of a conversation tells its tree. A session that was named by a client does not, so its last response is asked:
the store refuses a response that is named in another tree than its parent.
"""

from __future__ import annotations

from dataclasses import replace

from antiphon_core.ids import Ids, new_response_id, tree_tag
from antiphon_core.ports.store import ResponseStore, TurnRequest


async def placed(store: ResponseStore, tenant: str, asked: TurnRequest, ids: Ids) -> TurnRequest:
    """The same turn, its response named in that tree."""
    if asked.session_id is None or tree_tag(asked.session_id) is not None:
        return asked
    head_id = (await store.describe_session(tenant, asked.session_id)).head_id
    if head_id is None:
        return asked
    response_id = new_response_id(ids, relative=head_id)
    return replace(asked, response_id=response_id, holder=response_id)
