"""Cleanup: reclaims the space of rows that nothing needs any more, one candidate at a time."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from antiphon_core import damage, limits, offload
from antiphon_core.errors import DataDamaged, InternalError, StoreUnavailable
from antiphon_core.ports.retention import Retention, Sweeping
from antiphon_core.telemetry import remedies
from antiphon_store.calls import implements
from antiphon_store.decisions import keys, lineage, nodes, sweeping
from antiphon_store.decisions.sweeping import Family
from antiphon_store.rows.model import Entry, Index, Kind, Partition, Payload, Span, named_node
from antiphon_store.topics.topic import Topic
from antiphon_store.topics.trees import tree_of

log = logging.getLogger(__name__)

CANDIDATES_PER_LOOK = 32
CANDIDATE_HIDE_MS = 5_000  # how long a candidate is hidden from other sweepers while it is checked
UNREADABLE_HIDE_MS = 3_600_000  # before a candidate that cannot be read is tried again


class SweepOperations(Topic):
    """The operation of `antiphon_core.ports.retention.Retention`, and the tenants to call it for."""

    async def tenants(self) -> Sequence[str]:
        """Every tenant that may have something to sweep, each once; the list is not a snapshot."""
        return await self._rows.tenants()

    @implements(Retention.sweep)
    async def sweep(self, tenant: str, *, limit: int) -> Sweeping:
        freed: list[int] = []
        while len(freed) < limit:
            most = min(CANDIDATES_PER_LOOK, limit - len(freed))
            due = await self._rows.take_due(tenant, Index.ENDS, "", limit=most, hide_ms=CANDIDATE_HIDE_MS)
            if not due:
                return Sweeping(len(freed), sum(freed))
            sizes = [await self._reclaim_readable(tenant, each) for each in due]
            freed += [each for each in sizes if each is not None]
        now_ms, waiting = await self._page(tenant, Index.ENDS, "", 1)
        return Sweeping(len(freed), sum(freed), has_more=bool(waiting) and waiting[0].at <= now_ms)

    async def _clear(self, tenant: str, response_id: str) -> bool:
        """Removes a node that cannot be read, with everything below it. False: some of that is kept."""
        partition = tree_of(tenant, response_id)
        found = await self._unreadable_below(tenant, response_id)
        if found is None:
            return False
        sessions = await self._bare.run(partition, lineage.sessions_of, only_reads=True)
        if any(found.get(row.fields.get("head") or "", False) for _, row in sessions):
            return False
        for node_id in reversed(found):
            await self._reclaim_node(tenant, node_id)
        return True

    async def _unreadable_below(self, tenant: str, response_id: str) -> dict[str, bool] | None:
        """A node and all nodes below it, parents before their children, each with whether it would be kept as the head
        of a session; None: one of them is readable. Reads the children of one node after the other, so that other calls
        are served in between."""
        now_ms, row = await self._bare.look_up(tenant, response_id)
        waiting, found = [Entry(response_id, 0, row)], dict[str, bool]()
        while waiting and len(found) < limits.TREE_CLEARED_NODES_MAX:
            node = waiting.pop()
            if nodes.is_readable(node.row, now_ms):
                return None
            found[node.id] = node.row is not None and not nodes.is_expired(node.row.fields, now_ms)
            below = self._entries(tree_of(tenant, response_id), Index.CHILDREN, node.id, payload=Payload.NONE)
            waiting += [each async for _, each in below]
        return found

    async def _reclaim_readable(self, tenant: str, entry: Entry) -> int | None:
        """Removes a candidate as `_reclaim` does. One that cannot be read is moved, and does not keep the others from
        being removed."""
        kind, _, row_id = entry.id.partition("/")
        if kind not in set(Kind):
            damage.report(f"an entry in the index of ends of tenant '{tenant}'", "it names no row")
            return None
        try:
            return await self._reclaim(tenant, Kind(kind), row_id, entry.taken_until)
        except InternalError as error:
            text = "a row that cannot be read is not cleaned up: %s: %s"
            is_key_unsure = "missing_key" in error.facts
            log.warning(text, entry.id, error, extra=remedies.CHECK_KEY if is_key_unsure else remedies.RESTORE_DATA)
        look_later = partial(sweeping.look_later, entry_id=entry.id, after_ms=UNREADABLE_HIDE_MS)
        return await self._bare.run(home_of(tenant, Kind(kind), row_id), look_later)

    async def _reclaim(self, tenant: str, kind: Kind, row_id: str, taken_until: int) -> int | None:
        """Removes a candidate if nothing needs it, and returns the bytes of its content."""
        if kind is Kind.NODE:
            return await self._reclaim_node(tenant, row_id, taken_until)
        if kind is Kind.SESSION:
            await self._limit_responses(tenant, row_id)
            reclaim = partial(sweeping.reclaim_session, session_id=row_id, taken_until=taken_until)
            return await self._bare.of_session(tenant, row_id, reclaim)
        decision = partial(sweeping.reclaim, kind=kind, row_id=row_id, taken_until=taken_until)
        return await self._unopened.run(home_of(tenant, kind, row_id), decision)

    async def _limit_responses(self, tenant: str, session_id: str) -> None:
        """Sets the expiry of the responses of a deleted conversation. Those of a conversation that was created after
        that under its id keep theirs."""
        read_end = partial(sweeping.read_responses_end, session_id=session_id)
        end = await self._bare.of_response(tenant, session_id, read_end, only_reads=True)
        if end is None:
            return
        async for _, entry in self._entries(tree_of(tenant, session_id), Index.MADE, session_id):
            if entry.at > end.made_until_ms:
                break
            await self._bare.change(sweeping.limit_response, tenant, named_node(entry.id), end.expires_ms)
        await self._bare.change(sweeping.forget_responses_end, tenant, session_id)

    async def _reclaim_node(self, tenant: str, response_id: str, taken_until: int = 0) -> int | None:
        # In this order: a readable node may become a head, and a node that is no longer a head may have got a child.
        dead_version, item_ids = await self._look_at_dead(tenant, response_id)
        partition = tree_of(tenant, response_id)
        sessions = await self._bare.run(partition, lineage.sessions_of, only_reads=True)
        _, children = await self._rows.page(partition, Index.CHILDREN, response_id, Span(1))
        family = Family(dead_version, item_ids, children, sessions)
        return await self._bare.change(sweeping.reclaim_node, tenant, response_id, family, taken_until=taken_until)

    async def _look_at_dead(self, tenant: str, response_id: str) -> tuple[int | None, Sequence[str]]:
        """The `v` of an unreadable node, and the ids of its items, none if they cannot be decrypted or parsed: the
        index entries of these items stay. None: the node is readable or absent."""
        try:
            now_ms, row = await self._trees.look_up(tenant, response_id)
        except (InternalError, StoreUnavailable) as error:
            if not isinstance(error, DataDamaged) and "missing_key" not in error.facts:
                raise
            now_ms, row = await self._unopened.look_up(tenant, response_id)
        if row is None or nodes.is_readable(row, now_ms):
            return None, ()
        return row.fields["v"], await offload.run(partial(nodes.item_ids, row), size_bytes=len(row.items))


def home_of(tenant: str, kind: Kind, row_id: str) -> Partition:
    """The partition of a row that an entry names."""
    return keys.partition_of(tenant, row_id) if kind is Kind.KEY else tree_of(tenant, row_id)
