"""The atoms of `roles.lineage`, each one statement: lists, trees, items, statuses, forks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from antiphon_core.errors import AlreadyExists, InternalError, ResponseNotFound, SessionLocked
from antiphon_core.ids import tree_tag
from antiphon_core.ports.lineage import Fork, ForkSource, ResolvedItem, TreeNode
from antiphon_core.ports.store import Order, Precondition, Record, Stamp, Status
from antiphon_store.backends import forking, node_rows, packing
from antiphon_store.backends.item_search import pick
from antiphon_store.backends.postgres import rows
from antiphon_store.backends.postgres.asking import Asking
from antiphon_store.backends.postgres.outcomes import Asked, Outcome
from antiphon_store.backends.roles.lineage import Position, Slice, Twig
from antiphon_store.backends.slices import ByteBudget, require_nodes

_INT64_MAX = 2**63 - 1
_BEFORE_ALL = Position(-1, -1, "")
_BEHIND_ALL = Position(_INT64_MAX, _INT64_MAX, "")
_LISTS = {Order.ASCENDING: ("list_ascending", _BEFORE_ALL), Order.DESCENDING: ("list_descending", _BEHIND_ALL)}


class PostgresLineage(Asking):
    """Implements `roles.lineage.LineageAtoms`."""

    async def fetch_many(self, tenant: str, ids: Sequence[str], *, max_bytes: int) -> Sequence[Record]:
        found = await self._run("fetch_many", {"tenant": tenant, "ids": list(ids), "max_bytes": max_bytes})
        ByteBudget(max_bytes, field="ids").use(found[0][0])
        records = {row[1]: node_rows.to_record(row[1:]) for row in found if row[1] is not None}
        return [records[each] for each in ids if each in records]

    async def change_status(self, tenant: str, response_id: str, status: Status, precondition: Precondition) -> Stamp:
        parameters = {"tenant": tenant, "id": response_id, "status": status.value}
        outcome = Outcome.of(await self._run("change_status", parameters | rows.precondition_parameters(precondition)))
        return outcome.stamp(Asked(response_id, precondition))

    async def session_records(
        self, tenant: str, session_id: str, *, after: Position | None, limit: int, order: Order, max_bytes: int
    ) -> Slice[Record]:
        statement, start = _LISTS[order]
        position = after or start
        parameters = {
            "tenant": tenant,
            "session_id": session_id,
            "depth": position.depth,
            "created_at_ms": position.created_at_ms,
            "id": position.id,
            "limit": limit,
            "max_bytes": max_bytes,
        }
        found = await self._run(statement, parameters)
        return Slice([node_rows.to_record(row[1:]) for row in found], has_more=bool(found) and found[0][0] > len(found))

    async def find_items(self, tenant: str, item_ids: Sequence[str], *, max_bytes: int) -> Sequence[ResolvedItem]:
        by_digest = {digest_of(item_id): item_id for item_id in item_ids}
        budget = ByteBudget(max_bytes, field="item_ids")
        found: dict[str, ResolvedItem] = {}
        parameters = {"tenant": tenant, "digests": list(by_digest)}
        for digests, response_id, items_crc, input_bytes, items in await self._run("find_items", parameters):
            node_rows.require_intact(response_id, items_crc, packing.checksum(response_id, input_bytes, items))
            wanted = {by_digest[digest] for digest in digests}
            for item in pick(response_id, packing.unpack(items, input_bytes), wanted).values():
                budget.use(len(item.item))
                found[item.id] = item
        return [found[item_id] for item_id in item_ids if item_id in found]

    async def fork(self, tenant: str, source: ForkSource, new_session_id: str) -> Fork:
        parameters = {
            "tenant": tenant,
            "source_session": source.session_id,
            "source_response": source.up_to_response_id,
            "new_session": new_session_id,
            "new_tag": tree_tag(new_session_id),
        }
        ((outcome, head_id),) = await self._run("fork", parameters)
        if outcome == "made":
            return Fork(new_session_id, head_id)
        raise _refusal(outcome, head_id, source, new_session_id)

    async def subtree(self, tenant: str, response_id: str, *, from_root: bool, max_nodes: int) -> Sequence[Twig]:
        parameters = {"tenant": tenant, "id": response_id, "from_root": from_root, "max_nodes": max_nodes}
        found = await self._run("subtree", parameters)
        if not found:
            raise ResponseNotFound.of(response_id)
        require_nodes(response_id, len(found), max_nodes=max_nodes)
        return [Twig(id_, parent, Status(status), *rest) for id_, parent, status, *rest in found]

    async def children(self, tenant: str, response_id: str, *, after: Position | None, limit: int) -> Slice[TreeNode]:
        return await self._children(tenant, response_id, after, limit, of_parent=False)

    async def siblings(self, tenant: str, response_id: str, *, after: Position | None, limit: int) -> Slice[TreeNode]:
        return await self._children(tenant, response_id, after, limit, of_parent=True)

    async def _children(
        self, tenant: str, response_id: str, after: Position | None, limit: int, *, of_parent: bool
    ) -> Slice[TreeNode]:
        position = after or _BEFORE_ALL
        parameters = {
            "tenant": tenant,
            "id": response_id,
            "of_parent": of_parent,
            "after_ms": position.created_at_ms,
            "after_id": position.id,
            "limit": limit,
        }
        found = await self._run("children", parameters)
        if not found:
            raise ResponseNotFound.of(response_id)
        page = [row for row in found if row[0] is not None]
        nodes = [
            TreeNode(id_, parent_id, Status(status), depth, child_count, created_at_ms)
            for id_, parent_id, status, depth, created_at_ms, child_count in page[:limit]
        ]
        return Slice(nodes, has_more=len(page) > limit)


def digests_of(item_ids: Iterable[str]) -> list[bytes]:
    return [digest_of(item_id) for item_id in item_ids]


def digest_of(item_id: str) -> bytes:
    """What an item is found by: ids are of any length, keys of an index are not."""
    return sha256(item_id.encode()).digest()


def _refusal(outcome: str, head_id: str | None, source: ForkSource, new_session_id: str) -> Exception:
    """The error of a fork that was refused, in the words of `forking`."""
    try:
        match outcome:
            case "nothing":
                forking.head_of(source, session_head_id=None, status=None, made_in=None)
            case "missing":
                forking.head_of(source, session_head_id=None, status=None, made_in=None)
            case "queued" | "in_progress":
                forking.head_of(source, session_head_id=None, status=Status(outcome), made_in=None)
            case "elsewhere":
                forking.head_of(source, session_head_id=None, status=Status.COMPLETED, made_in=None)
            case "other_tree":
                forking.require_kinship(new_session_id, head_id or "")
            case "exists":
                return AlreadyExists.of(new_session_id)
            case "locked":
                return SessionLocked.of(new_session_id)
    except Exception as error:  # noqa: BLE001 - raising it is what those rules are for
        return error
    return InternalError(f"The database gave an outcome that is none: {outcome}.")
