"""Operations on single responses, and on the chains that they end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from antiphon_core import items as item_arrays
from antiphon_core import limits, offload
from antiphon_core.errors import AlreadyExists, LimitExceeded
from antiphon_core.ids import is_conversation_id
from antiphon_core.jsons import work_bytes
from antiphon_core.ports.lineage import LineageStore
from antiphon_core.ports.store import (
    Fence,
    ItemPage,
    Order,
    Precondition,
    Record,
    ResponseStore,
    Stamp,
    TurnCommit,
)
from antiphon_store.arguments import implements
from antiphon_store.decisions import lineage, nodes, records, turns
from antiphon_store.decisions.records import CrowdedSession, OccupiedId, Write
from antiphon_store.rows.model import Index, Partition, Payload
from antiphon_store.rules import common as rules
from antiphon_store.rules.contents import check_content, tight
from antiphon_store.rules.values import size_of
from antiphon_store.topics.sweeping import SweepOperations
from antiphon_store.topics.topic import ROWS_AT_ONCE, one_step
from antiphon_store.topics.trees import session_of, tree_of


class RecordOperations(SweepOperations):
    """Single responses, and the chains that they end."""

    page_bytes_max = limits.PAGE_BYTES_MAX

    get = one_step(ResponseStore.get, records.get, only_reads=True)
    delete = one_step(ResponseStore.delete, records.delete, needs_content=False)
    update_status = one_step(LineageStore.update_status, records.update_status, needs_content=False)
    chain = one_step(ResponseStore.chain, lineage.chain, only_reads=True)

    @implements(ResponseStore.put)
    async def put(
        self,
        tenant: str,
        record: Record,
        *,
        precondition: Precondition,
        ttl_ms: int | None,
        idempotency_key: str | None,
    ) -> Stamp:
        """Inserts or replaces one record, once for each key. Raises the errors of `decisions.turns.commit`."""
        write = await self._write(TurnCommit(record, ttl_ms=ttl_ms, precondition=precondition))
        write_once = partial(self._commit, tenant, write)
        return await self._keys.put(tenant, idempotency_key, write.record, precondition, write_once)

    @implements(LineageStore.batch_get)
    async def batch_get(self, tenant: str, ids: Sequence[str]) -> Sequence[Record]:
        wanted = list(dict.fromkeys(ids))
        found: list[Record] = []
        for start in range(0, len(wanted), ROWS_AT_ONCE):
            found += await self._read_together(tenant, wanted[start : start + ROWS_AT_ONCE])
            self._require_fit(map(size_of, found), field="ids")
        return found

    @implements(ResponseStore.list_items)
    async def list_items(
        self, tenant: str, response_id: str, *, after: str | None, limit: int, order: Order
    ) -> ItemPage:
        """Reads a page of a response's input items. ResponseNotFound. InvalidRequest: `after` is none of them."""
        record = await self.get(tenant, response_id)
        return await item_page(record.input_items, f"input item of '{response_id}'", after, limit, order)

    async def _read_together(self, tenant: str, ids: Sequence[str]) -> Sequence[Record]:
        """Reads the readable ones of some responses, in the order of their ids."""
        groups: dict[Partition, list[str]] = {}
        for each in ids:
            groups.setdefault(tree_of(tenant, each), []).append(each)
        found = await asyncio.gather(*(self._read(*group) for group in groups.items()))
        by_id = {record.id: record for part in found for record in part}
        return [by_id[each] for each in ids if each in by_id]

    async def _read(self, partition: Partition, ids: list[str]) -> list[Record]:
        """Reads the readable ones of some responses of a tree."""
        now_ms, rows = await self._trees.run(partition, partial(lineage.rows_of, response_ids=ids), only_reads=True)
        return [
            nodes.to_record(response_id, row)
            for response_id, row in zip(ids, rows, strict=True)
            if row is not None and nodes.is_readable(row, now_ms)
        ]

    def _require_fit(self, sizes: Iterable[int], *, field: str) -> None:
        """LimitExceeded: an answer of these parts would be too large. Answers are never cut silently."""
        most = self.page_bytes_max
        if sum(sizes) > most:
            raise LimitExceeded(
                f"The answer to '{field}' is over the limit of {most} bytes. Ask for fewer at a time.",
                field=field,
                limit=f"{most} bytes",
            )

    async def _write(self, commit: TurnCommit) -> Write:
        """Makes the write of a commit, with the lifetimes and limits of the settings."""
        record, settings = commit.record, self._settings
        ttl_ms = self._lifetime_ms(record, commit.ttl_ms)
        size_bytes = work_bytes(record.body) + work_bytes(record.input_items) + work_bytes(record.output_items)
        item_ids, record = await offload.run(lambda: (check_content(record), tight(record)), size_bytes=size_bytes)
        condition, log_end, job, most = commit.precondition, commit.log_end, commit.job, settings.max_session_responses
        log_ttl_ms, job_ttl_ms = settings.event_log_ttl_s * 1000, settings.job_ttl_s * 1000
        return Write(record, condition, ttl_ms, item_ids, log_end, log_ttl_ms, job, job_ttl_ms, most)

    def _lifetime_ms(self, record: Record, ttl_ms: int | None) -> int | None:
        """The lifetime of a record: what its writer asked for, within the policy. By default, responses of a
        conversation live as long as the policy allows, so that it keeps its beginning."""
        most_s = self._settings.max_ttl_s
        is_in_conversation = is_conversation_id(record.session_id or "")
        return rules.lifetime_ms(ttl_ms, most_s if is_in_conversation else self._settings.default_ttl_s, most_s)

    async def _commit(self, tenant: str, write: Write, fence: Fence | None = None) -> Stamp:
        record, bounded = write.record, write
        sessions = {record.session_id: "record.session_id"} if record.session_id is not None else {}
        sessions |= session_of(fence) | session_of(write.precondition.fence, "precondition.")
        while True:
            decision = partial(turns.commit, write=bounded, fence=fence)
            try:
                return await self._trees.of_record(tenant, record.id, sessions, decision)
            except OccupiedId:
                if not await self._clear(tenant, record.id):
                    raise AlreadyExists.of(record.id) from None
            except CrowdedSession:
                most = write.session_responses_max or 0
                dead = await self._count_dead(tree_of(tenant, record.id), record.session_id or "", most)
                bounded = replace(write, session_responses_max=most + dead)

    async def _count_dead(
        self, partition: Partition, session_id: str, most: int, *, field: str = "record.session_id"
    ) -> int:
        """Counts the entries of unreadable responses in a session. LimitExceeded: too many others are readable."""
        dead = readable = 0
        async for now_ms, entry in self._entries(partition, Index.MADE, session_id, payload=Payload.NONE):
            is_readable = nodes.is_readable(entry.row, now_ms)
            readable, dead = readable + is_readable, dead + (not is_readable)
            if readable >= most:
                raise records.too_many(session_id, most, field)
        return dead


async def item_page(
    items: bytes, named: str, after: str | None, limit: int, order: Order, *, removed: Sequence[str] = ()
) -> ItemPage:
    """A page of a JSON array of items without the `removed` ones. InvalidRequest: `after` is none of the items."""
    cut = partial(item_arrays.page, items, after=after, limit=limit, order=order, removed=frozenset(removed))
    page = await offload.run(cut, size_bytes=len(items))
    if page is None:
        raise rules.invalid("after", f"'after' names no {named}.")
    return page
