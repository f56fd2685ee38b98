"""Chooses the tree of a response in a session: that of the session's last response.

The id of a response names its tree, and the store rejects a response in another tree than its parent's. The id of a
conversation names the tree, too. An id that a client chose for its session does not, so the session's head is read.
A session without a head has a tree that is derived from its id: each of several concurrent first turns continues the
one before, so all of them must be in one tree.
"""

from __future__ import annotations

from dataclasses import replace

from antiphon_core.ids import DerivedIds, Ids, new_conversation_id, new_response_id, tree_tag
from antiphon_core.ports.store import ResponseStore, TurnRequest


async def with_response_id(store: ResponseStore, tenant: str, asked: TurnRequest, ids: Ids) -> TurnRequest:
    """Returns the request with the id of a new response in the tree of its session."""
    if asked.session_id is None or tree_tag(asked.session_id) is not None:
        return asked
    head_id = (await store.describe_session(tenant, asked.session_id)).head_id
    response_id = new_response_id(ids, relative=head_id or _root_of(tenant, asked.session_id))
    return replace(asked, response_id=response_id, holder=response_id)


def _root_of(tenant: str, session_id: str) -> str:
    """An id in the tree of a session without responses. Clients can compute the tag of the tree, but not the ids of its
    responses: the rest of those is random."""
    return new_conversation_id(DerivedIds(f"session\n{tenant}\n{session_id}"))
