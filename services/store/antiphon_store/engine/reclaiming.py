"""Giving back the space of what nobody can see any more: one candidate after the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from antiphon_core import limits
from antiphon_core.ids import session_tag, tree_tag
from antiphon_core.ports.retention import Sweeping
from antiphon_store.decisions import keys, lineage, nodes, sweeping
from antiphon_store.decisions.sweeping import Family
from antiphon_store.engine.operations import Operations
from antiphon_store.rows.model import Entry, Index, Kind, Partition, named_node

CANDIDATES_PER_LOOK = 32
CANDIDATE_HIDE_MS = 5_000  # how long a candidate is kept from other sweepers while it is looked at


class Reclaiming(Operations):
    """Takes away what may go."""

    async def tenants(self) -> Sequence[str]:
        """Everybody who may have something to sweep, each once; it need not be of one moment."""
        return await self._rows.tenants()

    async def sweep(self, tenant: str, *, limit: int) -> Sweeping:
        """Reclaims up to `limit` of a tenant's nodes that are neither kept nor the ancestor of a kept one, of its
        expired event logs, of its jobs that need to be remembered no longer, and of its expired conversations with all
        that `remove_conversation` takes. `has_more`: there are more candidates."""
        freed: list[int] = []
        while len(freed) < limit:
            most = min(CANDIDATES_PER_LOOK, limit - len(freed))
            due = await self._rows.take_due(tenant, Index.ENDS, "", limit=most, hide_ms=CANDIDATE_HIDE_MS)
            if not due:
                return Sweeping(len(freed), sum(freed))
            sizes = [await self._reclaim(tenant, each) for each in due]
            freed += [each for each in sizes if each is not None]
        now_ms, waiting = await self._rows.page(Partition(tenant, ""), Index.ENDS, "", after=None, limit=1)
        return Sweeping(len(freed), sum(freed), has_more=bool(waiting) and waiting[0].at <= now_ms)

    async def _clear(self, partition: Partition, response_id: str) -> bool:
        """Takes away a node that cannot be read, with everything below it, if nothing of that is kept."""
        now_ms, found = await self._rows.subtree(partition, [response_id], max_nodes=limits.TREE_WALK_NODES_MAX)
        sessions = await self._runner.run(partition, lineage.sessions_of, only_reads=True)
        heads = {row.fields.get("head") for _, row in sessions}
        for each in found:
            fields = each.row.fields if each.row is not None else {}
            if not nodes.is_expired(fields, now_ms) and (not fields["deleted"] or each.id in heads):
                return False
        for each in sorted(found, key=lambda entry: -(entry.row.fields["depth"] if entry.row is not None else 0)):
            await self._reclaim_node(partition, each.id)
        return True

    async def _reclaim(self, tenant: str, entry: Entry) -> int | None:
        """Takes a candidate away if it can go: the bytes of its content."""
        kind, _, row_id = entry.id.partition("/")
        partition = partition_of(tenant, Kind(kind), row_id)
        if kind == Kind.NODE:
            return await self._reclaim_node(partition, row_id, entry.taken_until)
        if kind == Kind.SESSION:
            await self._limit_responses(partition, row_id, entry.taken_until)
            return None
        decision = partial(sweeping.reclaim, kind=Kind(kind), row_id=row_id, taken_until=entry.taken_until)
        return await self._runner.run(partition, decision)

    async def _limit_responses(self, partition: Partition, session_id: str, taken_until: int) -> None:
        """Sets the end of the responses of a conversation that was deleted."""
        end = partial(sweeping.read_responses_end, session_id=session_id)
        expires_ms = await self._runner.run(partition, end, only_reads=True)
        if expires_ms is not None:
            async for _, entry in self._entries(partition, Index.MADE, session_id):
                if entry.row is not None and entry.row.fields["expires"] is None:
                    limit = partial(sweeping.limit_response, response_id=named_node(entry.id), expires_ms=expires_ms)
                    await self._runner.run(partition, limit)
        forget = partial(sweeping.forget_responses_end, session_id=session_id, taken_until=taken_until)
        await self._runner.run(partition, forget)

    async def _reclaim_node(self, partition: Partition, response_id: str, taken_until: int = 0) -> int | None:
        decision = partial(
            sweeping.reclaim_node,
            response_id=response_id,
            family=await self._family(partition, response_id),
            taken_until=taken_until,
        )
        return await self._runner.run(partition, decision)

    async def _family(self, partition: Partition, response_id: str) -> Family:
        # In this order: a node that can be read may become a head, and a head that moves on gets a child.
        now_ms, (row,) = await self._runner.run(
            partition, partial(lineage.rows_of, response_ids=[response_id]), only_reads=True
        )
        is_dead = row is not None and not nodes.is_readable(row, now_ms)
        sessions = await self._runner.run(partition, lineage.sessions_of, only_reads=True)
        _, children = await self._rows.page(partition, Index.CHILDREN, response_id, after=None, limit=1)
        return Family(row.fields["v"] if row is not None and is_dead else None, children, sessions)


def partition_of(tenant: str, kind: Kind, row_id: str) -> Partition:
    """Where a row lies that an entry names."""
    if kind is Kind.KEY:
        return keys.partition_of(tenant, row_id)
    return Partition(tenant, tree_tag(row_id) or session_tag(tenant, row_id))
