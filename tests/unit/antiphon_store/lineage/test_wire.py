from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.lineage import Fork, ForkSource, NodePage, RecordPage, ResolvedItem, ResolvedItems, TreeNode
from antiphon_core.ports.store import Record, Status
from antiphon_protos.antiphon.store import v1
from antiphon_store.lineage import wire
from tests.support.sent import sent

names = st.text("abc_-0", min_size=1, max_size=8)
numbers = st.integers(0, 2**31)
nodes = st.builds(
    TreeNode,
    id=names,
    parent_id=st.none() | names,
    status=st.none() | st.sampled_from(Status),
    depth=numbers,
    child_count=numbers,
    created_at_ms=numbers,
)
records = st.builds(Record, id=names, status=st.sampled_from(Status), body=st.binary(max_size=9))
items = st.builds(ResolvedItem, names, names, st.binary(max_size=9))
cursors = st.none() | names


def to_tree(page: NodePage) -> v1.TreeResponse:
    return v1.TreeResponse(nodes=wire.to_nodes(page), next_cursor=page.next_cursor or "")


ROUND_TRIPS = {
    "fork": (st.builds(Fork, names, names), wire.to_fork, wire.from_fork),
    "node": (nodes, wire.to_node, wire.from_node),
    "nodes": (st.builds(NodePage, st.lists(nodes), cursors), to_tree, wire.from_node_page),
    "records": (st.builds(RecordPage, st.lists(records), cursors), wire.to_record_page, wire.from_record_page),
    "items": (
        st.builds(ResolvedItems, st.lists(items), st.lists(names)),
        wire.to_resolved_items,
        wire.from_resolved_items,
    ),
}


@pytest.mark.parametrize("kind", ROUND_TRIPS)
@given(data=st.data())
def test_values_survive_the_wire(kind: str, data: st.DataObject) -> None:
    values, to_wire, from_wire = ROUND_TRIPS[kind]
    value: object = data.draw(values)
    message = to_wire(value)  # type: ignore[operator]
    assert from_wire(sent(message)) == value  # type: ignore[operator]


@given(source=st.builds(ForkSource, cursors, cursors), new_session_id=cursors)
def test_a_fork_survives_the_wire(source: ForkSource, new_session_id: str | None) -> None:
    message = sent(wire.to_fork_request(source, new_session_id))
    assert wire.from_fork_request(message) == source
    assert message.new_session_id == (new_session_id or "")


def test_a_status_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRequest) as caught:
        wire.from_node(v1.TreeNode(status=v1.ResponseStatus(99)))
    assert caught.value.field == "node.status"
