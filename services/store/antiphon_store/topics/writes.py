"""Operations that write a response: one record, or the end of a turn."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from antiphon_core import offload
from antiphon_core.errors import AlreadyExists, StoreUnavailable
from antiphon_core.ids import is_conversation_id
from antiphon_core.jsons import work_bytes
from antiphon_core.ports.checks import check_range
from antiphon_core.ports.jobs import DISPATCH_QUEUE
from antiphon_core.ports.store import Fence, Precondition, Record, ResponseStore, Stamp, TurnCommit
from antiphon_store.calls import implements
from antiphon_store.decisions import nodes, records
from antiphon_store.decisions.records import CrowdedSession, OccupiedId, Write
from antiphon_store.rows.model import Index, Partition, Payload
from antiphon_store.rules.contents import check_record
from antiphon_store.topics.jobs import JobOperations
from antiphon_store.topics.sweeping import SweepOperations
from antiphon_store.topics.trees import tree_of


class WriteOperations(SweepOperations, JobOperations):
    """Writes of one record, and of the end of a turn."""

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
        """Inserts or replaces one record, once for each key. Raises the errors of `decisions.records.put`."""
        write = await self._write(TurnCommit(record, ttl_ms=ttl_ms, precondition=precondition))
        if idempotency_key is None:
            return await self._commit(tenant, write)
        write_once = partial(self._commit, tenant, write)
        return await self._keys.put(tenant, idempotency_key, write.record, precondition, write_once)

    @implements(ResponseStore.commit_turn)
    async def commit_turn(self, tenant: str, commit: TurnCommit) -> Stamp:
        """Binds the key, then writes the record, the head, and the ends of the lease, the log and the job in one step.

        Raises the errors of `decisions.records.put`. IdempotencyMismatch: the key is another response's."""
        write, fence, record_id = await self._write(commit), commit.fence, commit.record.id
        if commit.job is not None:
            await self._require_room_for(tenant, record_id)
        if commit.idempotency_key is None:
            stamp = await self._commit(tenant, write, fence)
        else:
            write_once = partial(self._commit, tenant, write, fence)
            stamp = await self._keys.commit(tenant, commit.idempotency_key, record_id, write_once)
        if commit.job is not None:  # `describe_job` does this if the process dies first
            await self._hand_in(tenant, DISPATCH_QUEUE)
        if fence is not None:
            self._session_lines.wake_first((tenant, fence.session_id))
        if commit.log_frames is not None:
            self._followers.wake_all((tenant, record_id))
        return stamp

    async def _write(self, commit: TurnCommit) -> Write:
        """Makes the write of a commit, with the lifetimes and limits of the settings."""
        record, settings = commit.record, self._settings
        # by default, a conversation keeps its responses for as long as the policy allows, and so its beginning
        is_in_conversation = is_conversation_id(record.session_id or "")
        default_s = settings.max_ttl_s if is_in_conversation else settings.default_ttl_s
        ttl_ms = lifetime_ms(commit.ttl_ms, default_s, settings.max_ttl_s)
        size_bytes = work_bytes(record.body, record.input_items, record.output_items)
        record, item_ids = await offload.run(partial(check_record, record), size_bytes=size_bytes)
        condition, log_frames, job, most = (
            commit.precondition,
            commit.log_frames,
            commit.job,
            settings.max_session_responses,
        )
        log_ttl_ms, job_ttl_ms = settings.event_log_ttl_s * 1000, settings.job_ttl_s * 1000
        write = Write(record, condition, ttl_ms, item_ids, log_frames, log_ttl_ms, job, job_ttl_ms, most)
        lineage_key = self._rows.digest_names(commit.lineage_key)[0] if commit.lineage_key else ""
        names = ("ends_job", "lineage", "approvals", "holds")
        return replace(write, lineage_key=lineage_key, **{name: getattr(commit, name) for name in names})

    async def _commit(self, tenant: str, write: Write, fence: Fence | None = None) -> Stamp:
        record, bounded, sessions = write.record, write, _sessions_of(write, fence)
        while True:
            decision = partial(records.put, write=bounded, fence=fence)
            try:
                return await self._trees.of_record(tenant, record.id, sessions, decision)
            except OccupiedId:
                if not await self._clear(tenant, record.id):
                    raise AlreadyExists.of(record.id) from None
            except CrowdedSession:
                most = write.session_responses_max or 0
                dead = await self._count_dead(tree_of(tenant, record.id), record.session_id or "", most)
                bounded = replace(bounded, session_responses_max=most + dead)
            except StoreUnavailable as error:
                if not (error.is_full and bounded.lineage):
                    raise
                bounded = replace(bounded, lineage=b"", lineage_key="")  # nothing depends on it

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


def _sessions_of(write: Write, fence: Fence | None) -> dict[str, str]:
    """The sessions of a write, with the fields that name them."""
    record, other = write.record, write.precondition.fence
    sessions = {record.session_id: "record.session_id"} if record.session_id is not None else {}
    if fence is not None:
        sessions[fence.session_id] = "fence.session_id"
    if other is not None:
        sessions[other.session_id] = "precondition.fence.session_id"
    return sessions


def lifetime_ms(ttl_ms: int | None, default_s: int | None, most_s: int | None) -> int | None:
    """A lifetime from now: `ttl_ms` if it is given, else the default. None: for ever. InvalidRequest: it is over the
    policy's limit."""
    if ttl_ms is None:
        return None if default_s is None else default_s * 1000
    if most_s is not None:
        check_range(ttl_ms, "ttl_ms", 1, most_s * 1000)
    return ttl_ms
