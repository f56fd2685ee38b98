"""Lineage's messages to values and back; see `antiphon_store.wire`."""

from __future__ import annotations

from antiphon_core.ports.lineage import Fork, ForkSource, NodePage, RecordPage, ResolvedItem, ResolvedItems, TreeNode
from antiphon_core.ports.store import Status
from antiphon_protos.antiphon.store import v1
from antiphon_store import wire


def to_status(status: Status) -> v1.ResponseStatus:
    return v1.ResponseStatus[status.name]


def to_fork_request(source: ForkSource, new_session_id: str | None) -> v1.ForkRequest:
    return v1.ForkRequest(
        session_id=source.session_id or "",
        up_to_response_id=source.up_to_response_id or "",
        new_session_id=new_session_id or "",
    )


def from_fork_request(message: v1.ForkRequest) -> ForkSource:
    return ForkSource(session_id=message.session_id or None, up_to_response_id=message.up_to_response_id or None)


def to_fork(fork: Fork) -> v1.ForkResponse:
    return v1.ForkResponse(session_id=fork.session_id, head_response_id=fork.head_id)


def from_fork(message: v1.ForkResponse) -> Fork:
    return Fork(session_id=message.session_id, head_id=message.head_response_id)


def to_node(node: TreeNode) -> v1.TreeNode:
    return v1.TreeNode(
        id=node.id,
        parent_id=node.parent_id or "",
        status=to_status(node.status) if node.status is not None else v1.ResponseStatus.UNSPECIFIED,
        depth=node.depth,
        child_count=node.child_count,
        created_at_ms=node.created_at_ms,
    )


def from_node(message: v1.TreeNode) -> TreeNode:
    return TreeNode(
        id=message.id,
        parent_id=message.parent_id or None,
        status=wire.from_status(message.status, "node.status") if message.status else None,
        depth=message.depth,
        child_count=message.child_count,
        created_at_ms=message.created_at_ms,
    )


def to_nodes(page: NodePage) -> list[v1.TreeNode]:
    return [to_node(node) for node in page.nodes]


def from_node_page(
    message: v1.TreeResponse | v1.ChildrenResponse | v1.SiblingsResponse | v1.LeavesResponse,
) -> NodePage:
    return NodePage([from_node(node) for node in message.nodes], message.next_cursor or None)


def to_record_page(page: RecordPage) -> v1.ListResponse:
    return v1.ListResponse(
        records=[wire.to_record(record) for record in page.records], next_cursor=page.next_cursor or ""
    )


def from_record_page(message: v1.ListResponse) -> RecordPage:
    return RecordPage([wire.from_record(record) for record in message.records], message.next_cursor or None)


def to_resolved_items(resolved: ResolvedItems) -> v1.ResolveItemsResponse:
    items = [v1.ResolvedItem(id=item.id, response_id=item.response_id, item=item.item) for item in resolved.items]
    return v1.ResolveItemsResponse(items=items, missing_ids=list(resolved.missing_ids))


def from_resolved_items(message: v1.ResolveItemsResponse) -> ResolvedItems:
    items = [ResolvedItem(item.id, item.response_id, item.item) for item in message.items]
    return ResolvedItems(items, list(message.missing_ids))
