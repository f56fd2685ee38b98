from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from antiphon_core.errors import AntiphonError, PositionMismatch, StoreUnavailable
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.limits import (
    APPEND_BYTES_MAX,
    APPEND_EVENTS_MAX,
    EVENT_LOG_APPEND_BYTES,
    EVENT_LOG_WAITING_BYTES_MAX,
)
from antiphon_core.ports.event_logs import Checkpoint, EventAppend
from antiphon_core.ports.translator import Batch
from antiphon_edge.turns.event_logs import EventLogWriter
from antiphon_edge.turns.turn_timing import TurnTiming
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from antiphon_store.testing.faulty import Fault, FaultyStore, When

TENANT = "t"
AT_ONCE = TurnTiming(linger_s=0)
RESPONSE_ID = new_response_id(RandomIds())


class Log:
    def __init__(self) -> None:
        self.store = self.backend = FaultyStore(StoreService(row_backend("memory://")))

    def writer(self, **options: Any) -> EventLogWriter:
        return EventLogWriter(self.store, TENANT, RESPONSE_ID, **{"timing": AT_ONCE} | options)

    async def read(self) -> tuple[bytes, list[Checkpoint]]:
        frames = b""
        checkpoints: list[Checkpoint] = []
        async for batch in self.store.read_events(TENANT, RESPONSE_ID):
            frames += batch.frames
            checkpoints += batch.checkpoints
        return frames, checkpoints


@pytest.fixture
async def log() -> AsyncIterator[Log]:
    log = Log()
    await log.backend.open()
    yield log
    await log.backend.close()


def frame(number: int, size: int = 0) -> bytes:
    return b"event: x\ndata: {}\n\n".replace(b"{}", b"%d%s" % (number, b"x" * size))


def batch(number: int, *ids: int, count: int = 1) -> Batch:
    frames = b"".join(frame(number + each) for each in range(count))
    return Batch(number, count, frames, token_ids=ids)


async def test_batches_are_written_with_their_token_ids(log: Log) -> None:
    writer = log.writer()
    for each in (batch(0, count=2), batch(2, 7), batch(3, 8, 9)):
        writer.put(each)
        await writer.flush()
    frames, checkpoints = await log.read()
    assert frames == b"".join(map(frame, range(4)))
    assert checkpoints == [Checkpoint(0, (7,)), Checkpoint(1, (8, 9))]


async def test_ids_go_on_behind_those_of_an_earlier_writer(log: Log) -> None:
    writer = log.writer(ids_before=5)
    writer.put(batch(0, 1))
    writer.put(batch(1, 2))
    await writer.flush()
    assert (await log.read())[1] == [Checkpoint(5, (1, 2))]


class Recorder:
    """A log whose appends wait for `go`."""

    def __init__(self) -> None:
        self.appends: list[EventAppend] = []
        self.go = asyncio.Event()

    async def append_events(self, _tenant: str, append: EventAppend, **_: Any) -> int:
        self.appends.append(append)
        await self.go.wait()
        return 0

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(30):
            while len(self.appends) < times:
                await asyncio.sleep(0)


def recorded(logs: Any, **options: Any) -> EventLogWriter:
    return EventLogWriter(logs, TENANT, RESPONSE_ID, **options)


async def test_batches_put_during_an_append_are_written_in_one_append() -> None:
    logs = Recorder()
    writer = recorded(logs, timing=AT_ONCE)
    writer.put(batch(0))
    await logs.until_asked(1)
    for number in range(1, 6):
        writer.put(batch(number, number))
    logs.go.set()
    await writer.flush()
    assert [(each.expected_position, each.count) for each in logs.appends] == [(0, 1), (1, 5)]


def pieces(count: int, size: int) -> Sequence[Batch]:
    return [Batch(number, 1, frame(number, size)) for number in range(count)]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        (pieces(5, APPEND_BYTES_MAX // 2), 5),
        (pieces(5, APPEND_BYTES_MAX // 3), 3),
        ([batch(number * 4_000, count=4_000) for number in range(5)], 3),
    ],
)
async def test_no_append_is_larger_than_the_store_takes(batches: Sequence[Batch], expected: int) -> None:
    logs = Recorder()
    logs.go.set()
    writer = recorded(logs)
    for each in batches:
        writer.put(each)
    await writer.flush()
    assert all(len(each.frames) <= APPEND_BYTES_MAX and each.count <= APPEND_EVENTS_MAX for each in logs.appends)
    assert sum(each.count for each in logs.appends) == sum(each.count for each in batches)
    assert len(logs.appends) == expected


@pytest.mark.parametrize("when", When)
async def test_event_log_is_complete_after_a_long_store_outage(log: Log, when: When) -> None:
    log.backend.plan(*[Fault("append_events", when)] * 2)
    writer = log.writer()
    for number in range(3):
        writer.put(batch(number, number))
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await writer.flush()
        writer.put(batch(number := number + 1, number))
    await writer.flush()
    frames, checkpoints = await log.read()
    assert frames == b"".join(map(frame, range(5)))
    assert [token_id for each in checkpoints for token_id in each.token_ids] == [0, 1, 2, 3, 4]


async def test_flush_tries_an_append_again_that_it_found_running() -> None:
    """The append may have been near the end of the store's retries."""

    class FailingOnce(Recorder):
        async def append_events(self, _tenant: str, append: EventAppend, **_: Any) -> int:
            await super().append_events(_tenant, append)
            if len(self.appends) == 1:
                raise StoreUnavailable("away")
            return 0

    logs = FailingOnce()
    writer = recorded(logs, timing=AT_ONCE)
    writer.put(batch(0))
    await logs.until_asked(1)
    flushing = asyncio.create_task(writer.flush())
    await asyncio.sleep(0)
    logs.go.set()
    await flushing
    assert [append.frames for append in logs.appends] == [frame(0)] * 2


class AwayTwice(Recorder):
    """A log that is unavailable to the first two appends."""

    async def append_events(self, _tenant: str, append: EventAppend, **_: Any) -> int:
        await super().append_events(_tenant, append)
        if len(self.appends) <= 2:
            raise StoreUnavailable("away")
        return 0


async def test_full_writer_appends_again_when_the_store_is_back() -> None:
    logs = AwayTwice()
    writer = recorded(logs, timing=AT_ONCE)
    writer.put(batch(0))
    await logs.until_asked(1)
    writer.put(Batch(1, 1, frame(1, EVENT_LOG_WAITING_BYTES_MAX)))
    logs.go.set()
    await logs.until_asked(4)
    assert [each.expected_position for each in logs.appends] == [0, 0, 0, 1]


async def test_append_at_a_wrong_position_is_reported_once_and_not_retried(log: Log) -> None:
    lost: list[AntiphonError] = []
    writer = log.writer(on_lost=lost.append)
    writer.put(batch(3))
    with pytest.raises(PositionMismatch):
        await writer.flush()
    assert [type(error) for error in lost] == [PositionMismatch]
    writer.put(batch(4))
    with pytest.raises(PositionMismatch):
        await writer.flush()


async def test_close_discards_unwritten_batches() -> None:
    logs = Recorder()
    writer = recorded(logs, timing=AT_ONCE)
    await writer.close()  # before the first batch
    writer.put(batch(0))
    await logs.until_asked(1)
    writer.put(batch(1))
    await asyncio.wait_for(writer.close(), 30)
    logs.go.set()
    await asyncio.sleep(0.01)
    assert [append.expected_position for append in logs.appends] == [0]


async def test_events_linger_and_are_appended_together(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, due = asyncio.get_running_loop(), list[Callable[[], None]]()
    call_at = loop.call_at

    def far_off(when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        due.append(callback)
        return call_at(when + 3600, callback)

    monkeypatch.setattr(loop, "call_at", far_off)
    logs = Recorder()
    logs.go.set()
    writer = recorded(logs)
    for number in range(3):
        writer.put(batch(number, number))
        await asyncio.sleep(0)
    monkeypatch.undo()
    assert logs.appends == []
    (append,) = due
    append()
    await logs.until_asked(1)
    assert [(each.expected_position, each.count) for each in logs.appends] == [(0, 3)]


@pytest.mark.parametrize("begun_s", [100, 101.5, 119.75])
async def test_all_writers_append_at_multiples_of_their_linger(begun_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, due_s = asyncio.get_running_loop(), list[float]()
    monkeypatch.setattr(loop, "time", lambda: begun_s)
    monkeypatch.setattr(loop, "call_at", lambda when, _callback: due_s.append(when))
    writer = recorded(Recorder(), timing=TurnTiming(linger_s=40))
    writer.put(batch(0))
    monkeypatch.undo()
    assert due_s == [120]


async def test_batch_put_during_an_append_waits_for_the_next_linger() -> None:
    logs = Recorder()
    writer = recorded(logs, timing=TurnTiming(linger_s=1e9))
    writer.put(Batch(0, 1, frame(0, EVENT_LOG_APPEND_BYTES)))
    await logs.until_asked(1)
    writer.put(batch(1))
    logs.go.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert [each.expected_position for each in logs.appends] == [0]
    assert writer._timer is not None
    await writer.flush()
    assert [each.expected_position for each in logs.appends] == [0, 1]


async def test_large_batch_is_appended_without_lingering() -> None:
    logs = Recorder()
    logs.go.set()
    writer = recorded(logs, timing=TurnTiming(linger_s=1e9))
    writer.put(Batch(0, 1, frame(0, EVENT_LOG_APPEND_BYTES)))
    await logs.until_asked(1)
    writer.put(batch(1))
    await writer.flush()
    assert [each.expected_position for each in logs.appends] == [0, 1]
