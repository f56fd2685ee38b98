"""Event logs as their callers see them: what may be appended, how long a log is kept, how reading goes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from antiphon_core import limits
from antiphon_core.ports.event_logs import EventAppend, EventBatch, EventLogs
from antiphon_core.ports.store import Fence, TurnCommit
from antiphon_store.arguments import argument_check, checked
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.frames import joined
from antiphon_store.rules import event_logs as rules
from antiphon_store.settings import StoreSettings
from antiphon_store.values import LogEnd
from antiphon_store.waiting import WaitingLines

_CHECK_READ = argument_check(EventLogs.read_events)


class EventLogOperations:
    """The part of StoreService that implements `antiphon_core.ports.event_logs.EventLogs`."""

    engine: StoreEngine
    _settings: StoreSettings
    _followers: WaitingLines

    @checked
    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None = None) -> int:
        ttl_ms = self._settings.event_log_ttl_s * 1000
        position = await self.engine.append_events(tenant, append, fence=fence, ttl_ms=ttl_ms)
        self._followers.wake_all((tenant, append.response_id))
        return position

    async def read_events(
        self, tenant: str, response_id: str, *, after: int | None = None, follow: bool = False
    ) -> AsyncGenerator[EventBatch, None]:
        _CHECK_READ((tenant, response_id), {"after": after})
        read, page_bytes = self.engine.read_log, limits.EVENT_PAGE_BYTES
        position = 0 if after is None else after + 1
        with self._followers.waiter([(tenant, response_id)]) as place:
            page = await read(tenant, response_id, position=position, max_bytes=page_bytes)
            end = page.next_position  # what was there at the beginning
            while True:
                if page.batches:
                    batch = joined(page.batches, position)
                    yield batch
                    position += batch.count
                caught_up = position >= page.next_position
                if (caught_up and page.closed) or (not follow and position >= end):
                    return
                if caught_up:
                    await place.wait()
                page = await read(tenant, response_id, position=position, max_bytes=page_bytes)

    def _log_end(self, commit: TurnCommit) -> LogEnd | None:
        """The end of the event log that a commit brings."""
        if commit.log_end is None:
            return None
        append = rules.end_of_log(commit.record.id, commit.log_end, is_terminal=commit.job is None)
        return LogEnd(append, self._settings.event_log_ttl_s * 1000)
