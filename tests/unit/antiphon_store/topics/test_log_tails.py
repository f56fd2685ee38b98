"""The shared readers of followed logs, over scripted pages. antiphon_store.testing.event_logs follows real logs."""

from __future__ import annotations

import asyncio

import pytest

from antiphon_core.errors import AntiphonError, InternalError, LogNotFound
from antiphon_core.ports.event_logs import EventBatch
from antiphon_store.decisions.logs import LogPage
from antiphon_store.topics import log_tails
from antiphon_store.topics.log_tails import LogTail, LogTails
from antiphon_store.waiting import WaitingLines

LINE = ("t", "resp")


def frames(first: int, count: int) -> bytes:
    return b"".join(b"data: %d\n\n" % number for number in range(first, first + count))


class Log:
    """A log whose batches a test adds, and the positions that were read."""

    def __init__(self, *, woken_together: int = 32) -> None:
        self.batches: list[EventBatch] = []
        self.read: list[int] = []
        self.error: Exception | None = None
        self.lines = WaitingLines(poll_s=3600)
        self.tails = LogTails(self._page, self.lines, woken_together=woken_together)

    def add(self, count: int = 1, *, terminal: bool = False) -> None:
        first = self.end
        self.batches.append(EventBatch(first, count, frames(first, count), terminal, ()))
        self.lines.wake_all(LINE)

    @property
    def end(self) -> int:
        return sum(each.count for each in self.batches)

    async def _page(self, _tenant: str, _log_id: str, position: int) -> LogPage:
        self.read.append(position)
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        found = tuple(each for each in self.batches if each.first_sequence + each.count > position)[:2]
        return LogPage(found, self.end, any(each.terminal for each in self.batches))


@pytest.fixture
def log() -> Log:
    return Log()


async def follow(tail: LogTail, position: int, end: int, until: int) -> bytes:
    """The frames that a follower is told, up to the event before `until`."""
    seen = b""
    while position < until:
        page = await tail.beyond(position, end)
        end = page.next_position
        for batch in page.batches:
            skipped = position - batch.first_sequence
            seen += frames(position, batch.count - skipped)
            position = batch.first_sequence + batch.count
    return seen


async def test_a_log_with_many_followers_is_read_once_for_each_append(log: Log) -> None:
    log.add()
    with log.tails.follow(*LINE) as tail:
        following = [asyncio.create_task(follow(tail, 1, 1, 4)) for _ in range(100)]
        for _ in range(3):
            while tail.waiting < 100:
                await asyncio.sleep(0)
            reads = len(log.read)
            log.add()
            while tail.waiting == 100:
                await asyncio.sleep(0)
            await asyncio.gather(*(each for each in following if each.done()))
            assert len(log.read) <= reads + 2  # the append, and a look behind it
        assert await asyncio.gather(*following) == [frames(1, 3)] * 100


async def test_followers_are_woken_some_in_each_iteration_of_the_loop() -> None:
    log = Log(woken_together=2)
    with log.tails.follow(*LINE) as tail:
        following = [asyncio.create_task(follow(tail, 0, 0, 1)) for _ in range(6)]
        while tail.waiting < 6:
            await asyncio.sleep(0)
        log.add()
        done: list[int] = []
        while not all(each.done() for each in following):
            await asyncio.sleep(0)
            done.append(sum(each.done() for each in following))
        assert max(after - before for before, after in zip([0, *done], done, strict=False)) == 2


@pytest.mark.parametrize("position", [0, 1, 2, 5])
async def test_followers_at_other_positions_get_every_event_once(log: Log, position: int) -> None:
    log.add(2)
    with log.tails.follow(*LINE) as tail:
        first = asyncio.create_task(follow(tail, 2, 2, 9))
        late = asyncio.create_task(follow(tail, position, 2, 9))
        for count in (3, 1, 2, 1):
            await asyncio.sleep(0)
            log.add(count)
        async with asyncio.timeout(30):
            assert await first == frames(2, 7)
            assert await late == frames(position, 9 - position)


async def test_an_ended_log_is_told_to_all_followers(log: Log) -> None:
    log.add()
    with log.tails.follow(*LINE) as tail:
        behind = asyncio.create_task(tail.beyond(7, 1))
        following = asyncio.create_task(tail.beyond(1, 1))
        await asyncio.sleep(0)
        log.add(terminal=True)
        assert [each.terminal for each in (await following).batches] == [True]
        assert (await behind).is_closed


@pytest.mark.parametrize(("error", "told"), [(LogNotFound.of("resp"), LogNotFound), (KeyError("bug"), InternalError)])
async def test_an_error_of_the_reader_reaches_each_follower_as_its_own(
    log: Log, error: Exception, told: type[AntiphonError]
) -> None:
    log.error = error
    with log.tails.follow(*LINE) as tail:
        found = await asyncio.gather(*(tail.beyond(0, 0) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in found] == [told] * 3
    assert len(set(map(id, found))) == 3


@pytest.mark.parametrize("fails", [False, True])
async def test_a_follower_that_comes_while_the_end_is_passed_on_gets_it_too(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tails, "KEPT_BYTES_MAX", 0)
    log = Log(woken_together=1)
    with log.tails.follow(*LINE) as tail:
        waiting = [asyncio.create_task(tail.beyond(5, 0)) for _ in range(3)]
        while tail.waiting < 3:
            await asyncio.sleep(0)
        log.error = LogNotFound.of("resp") if fails else None
        log.add(terminal=True)
        while not waiting[0].done():
            await asyncio.sleep(0)
        late = asyncio.create_task(tail.beyond(5, 1))
        async with asyncio.timeout(30):
            found = await asyncio.gather(*waiting, late, return_exceptions=True)
    assert all(isinstance(each, LogNotFound if fails else LogPage) for each in found)


async def test_the_reader_ends_with_its_last_follower(log: Log) -> None:
    with log.tails.follow(*LINE) as tail:
        waiting = asyncio.create_task(tail.beyond(0, 0))
        while not tail.waiting:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    await asyncio.sleep(0)
    reads = len(log.read)
    log.add()
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(log.read) == reads
    with log.tails.follow(*LINE) as other:
        assert other is not tail
