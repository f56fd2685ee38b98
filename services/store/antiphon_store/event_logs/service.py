"""Event logs as their callers see them: what may be appended, how long a log is kept, how reading goes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from antiphon_core import limits
from antiphon_core.ports.event_logs import EventAppend, EventBatch
from antiphon_core.ports.store import Fence, TurnCommit
from antiphon_store import rules as store_rules
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.event_logs import rules
from antiphon_store.event_logs.frames import joined
from antiphon_store.settings import StoreSettings
from antiphon_store.values import LogEnd
from antiphon_store.waiting import WaitingLines


class EventLogOperations:
    """The part of StoreService that implements `antiphon_core.ports.event_logs.EventLogs`."""

    _backend: StoreEngine
    _settings: StoreSettings
    _followers: WaitingLines

    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None = None) -> int:
        store_rules.check_tenant(tenant)
        rules.check_append(append)
        if fence is not None:
            store_rules.check_fence(fence)
        ttl_ms = self._settings.event_log_ttl_s * 1000
        position = await self._backend.append_events(tenant, append, fence=fence, ttl_ms=ttl_ms)
        self._followers.wake_all((tenant, append.response_id))
        return position

    async def read_events(
        self, tenant: str, response_id: str, *, after: int | None = None, follow: bool = False
    ) -> AsyncGenerator[EventBatch, None]:
        store_rules.check_tenant(tenant)
        store_rules.check_response_id(response_id, "response_id")
        rules.check_after(after)
        read, page_bytes = self._backend.read_log, limits.EVENT_PAGE_BYTES
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
        """The end of the event log that a commit brings. InvalidRequest: in its own words, under `log_end`."""
        if commit.log_end is None:
            return None
        append = rules.end_of_log(commit.record.id, commit.log_end, is_terminal=commit.job is None)
        return LogEnd(append, self._settings.event_log_ttl_s * 1000)
