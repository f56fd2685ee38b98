"""Operations on event logs: appending, and reading or following them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from antiphon_core import damage, limits
from antiphon_core.ids import Ids
from antiphon_core.ports.event_logs import EventAppend, EventBatch, EventLogs
from antiphon_core.ports.store import Fence
from antiphon_store.calls import OPERATION_OF, implements
from antiphon_store.decisions import logs
from antiphon_store.frames import join_batches
from antiphon_store.rows.backend import RowBackend
from antiphon_store.settings import StoreSettings
from antiphon_store.topics.log_tails import LogTails
from antiphon_store.topics.topic import Topic
from antiphon_store.topics.trees import session_of

_BIND_READ = OPERATION_OF[EventLogs.read_events].bind


class EventLogOperations(Topic):
    """The operations of `antiphon_core.ports.event_logs.EventLogs`."""

    def __init__(self, rows: RowBackend, settings: StoreSettings | None = None, *, ids: Ids | None = None) -> None:
        super().__init__(rows, settings, ids=ids)
        self._tails = LogTails(self._read_log, self._followers)

    @implements(EventLogs.append_events)
    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None) -> int:
        ttl_ms = self._settings.event_log_ttl_s * 1000
        decision = partial(logs.append, append=append, fence=fence, ttl_ms=ttl_ms)
        position = await self._trees.of_record(tenant, append.response_id, session_of(fence), decision)
        self._followers.wake_all((tenant, append.response_id))
        return position

    async def read_events(
        self, tenant: str, response_id: str, *, after: int | None = None, follow: bool = False
    ) -> AsyncGenerator[EventBatch, None]:
        _BIND_READ((tenant, response_id), {"after": after})
        position = 0 if after is None else after + 1
        page = await self._read_log(tenant, response_id, position)
        end = page.next_position  # the end of the log when the read began
        with self._tails.follow(tenant, response_id) as tail:
            while True:
                if page.batches:
                    with damage.reading(f"the event log of '{response_id}'"):
                        batch = join_batches(page.batches, position)
                    yield batch
                    position += batch.count
                caught_up = position >= page.next_position
                if (caught_up and page.is_closed) or (not follow and position >= end):
                    return
                if caught_up:
                    page = await tail.beyond(position, page.next_position)
                else:
                    page = await self._read_log(tenant, response_id, position)

    async def _read_log(self, tenant: str, response_id: str, position: int) -> logs.LogPage:
        read = partial(logs.read, log_id=response_id, position=position, max_bytes=limits.EVENT_PAGE_BYTES)
        return await self._trees.of_response(tenant, response_id, read, only_reads=True)
