from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from antiphon_core import events
from antiphon_core.errors import LogNotFound, StoreUnavailable
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.jsons import Object
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_core.ports.event_logs import Checkpoint, EventAppend
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Record, Status
from antiphon_core.ports.translator import Batch
from antiphon_core.retrying import RetryPolicy
from antiphon_edge import replay
from antiphon_edge.turns import event_logs
from antiphon_edge.turns.event_logs import LogFollower, Look, final_of_record
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from tests.support.background import TENANT, BreakableStore, hasten
from tests.support.waiting import WAIT_MAX_S, until

RESPONSE_ID = "resp_" + "a" * 48
BODY = {"id": RESPONSE_ID, "status": "completed"}
ENDED = Record(RESPONSE_ID, Status.COMPLETED, b'{"id":"%s","status":"completed"}' % RESPONSE_ID.encode())


def frame(number: int) -> bytes:
    if number == 3:
        ended: Object = BODY | {"output": []}
        return events.encode({"type": events.COMPLETED, "sequence_number": number, "response": ended})
    return events.encode({"type": events.OUTPUT_TEXT_DELTA, "sequence_number": number, "delta": f"\n{number}"})


ALL = b"".join(map(frame, range(4)))


@pytest.fixture
async def store(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[BreakableStore]:
    hasten(monkeypatch)
    backend = row_backend("memory://")
    await backend.open()
    yield BreakableStore(StoreService(backend))
    await backend.close()


@pytest.fixture
def follower(store: BreakableStore) -> LogFollower:
    return LogFollower(cast("FullStore", store))


async def append(store: BreakableStore, *numbers: int) -> None:
    frames = b"".join(map(frame, numbers))
    await store.append_events(
        TENANT, EventAppend(RESPONSE_ID, numbers[0], len(numbers), frames, terminal=numbers[-1] == 3)
    )


async def test_a_large_response_is_made_to_events_outside_the_event_loop(
    follower: LogFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def frames_of(_record: Record) -> list[bytes]:
        threads.append(threading.get_ident())
        return [frame(3)]

    monkeypatch.setattr(replay, "frames_of", frames_of)
    large = replace(ENDED, output_items=b'[{"id":"%s"}]' % (b"x" * 2**17))
    for record in (ENDED, large):
        assert [batch.count async for batch in follower.replay(record)] == [1]
    here = threading.get_ident()
    assert [thread == here for thread in threads] == [True, False]


PATIENT = RetryPolicy(for_s=WAIT_MAX_S, first_s=0.001, most_s=0.001)


async def goes_on() -> bool:
    """The look of a follower whose turn runs."""
    return True


def follow(
    follower: LogFollower,
    look: Look = goes_on,
    *,
    after: int | None = None,
    silence_s: float = WAIT_MAX_S,
    retry: RetryPolicy = PATIENT,
) -> AsyncGenerator[Batch, None]:
    return follower.follow(TENANT, RESPONSE_ID, look, after=after, silence_s=silence_s, retry=retry)


async def read(stream: AsyncGenerator[Batch, None]) -> list[Batch]:
    async with asyncio.timeout(WAIT_MAX_S):
        return [batch async for batch in stream]


async def read_to_first_batch(stream: AsyncGenerator[Batch, None]) -> asyncio.Task[list[Batch]]:
    """Starts to read a stream and returns the task after the first batch."""
    has_begun = asyncio.Event()

    async def read_on() -> list[Batch]:
        batches = []
        async for batch in stream:
            batches.append(batch)
            has_begun.set()
        return batches

    reading = asyncio.create_task(read_on())
    async with asyncio.timeout(WAIT_MAX_S):
        await has_begun.wait()
    return reading


def joined(batches: list[Batch]) -> bytes:
    return b"".join(batch.frames for batch in batches)


async def is_over() -> bool:
    """The look of a follower whose turn is over."""
    return False


@pytest.mark.parametrize("after", [None, 0, 1, 2, 3, 9])
async def test_ended_log_is_read_after_any_event(
    store: BreakableStore, follower: LogFollower, after: int | None
) -> None:
    await append(store, 0, 1, 2, 3)
    expected = b"".join(frame(number) for number in range(4) if after is None or number > after)
    assert joined(await read(follow(follower, is_over, after=after))) == expected
    assert joined(await read(follower.rest(TENANT, RESPONSE_ID, after=after))) == expected


async def test_last_batch_has_the_final_of_record_the_response(store: BreakableStore, follower: LogFollower) -> None:
    await append(store, 0, 1)
    await append(store, 2, 3)
    batches = await read(follow(follower))
    assert [batch.final for batch in batches[:-1]] == [None] * (len(batches) - 1)
    assert batches[-1].final == final_of_record(ENDED)


async def test_events_are_followed_as_they_are_appended(store: BreakableStore, follower: LogFollower) -> None:
    reading = asyncio.create_task(read(follow(follower)))
    await asyncio.sleep(0.02)  # there is no log yet
    await append(store, 0)
    await asyncio.sleep(0.02)
    await append(store, 1, 2)
    await append(store, 3)
    assert joined(await reading) == ALL


async def test_follower_of_a_missing_log_ends_when_its_turn_is_over(follower: LogFollower) -> None:
    assert await read(follow(follower, is_over)) == []
    with pytest.raises(LogNotFound):
        await read(follower.rest(TENANT, RESPONSE_ID, after=None))


async def test_silent_log_is_looked_at_until_its_turn_is_over(store: BreakableStore, follower: LogFollower) -> None:
    answers = [True, True, False]

    async def look() -> bool:
        return answers.pop(0)

    await append(store, 0, 1)
    assert joined(await read(follow(follower, look, silence_s=0.001))) == frame(0) + frame(1)
    assert answers == []


async def test_short_store_outage_loses_no_events(store: BreakableStore, follower: LogFollower) -> None:
    await append(store, 0, 1)
    reading = await read_to_first_batch(follow(follower))
    store.failing["read_events"] = 1  # the next events are lost on their way
    await append(store, 2)
    await asyncio.sleep(0.02)
    await append(store, 3)
    assert joined(await reading) == ALL


class FailingLook:
    """The look of a follower while the store is away for some calls."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0

    async def __call__(self) -> bool:
        self.calls += 1
        if self.calls <= self.failures:
            raise StoreUnavailable("away")
        return True


async def test_lasting_store_outage_is_raised(store: BreakableStore, follower: LogFollower) -> None:
    await append(store, 0, 1)
    reading = await read_to_first_batch(follow(follower, retry=RetryPolicy(for_s=0.02, first_s=0.005)))
    store.failing["read_events"] = 1_000
    await append(store, 2)
    with pytest.raises(StoreUnavailable):
        await reading


async def test_retry_time_of_a_quiet_log_begins_with_the_store_outage(
    store: BreakableStore, follower: LogFollower
) -> None:
    """The retry time starts with the outage, not with the last event before the outage."""
    await append(store, 0, 1)
    retry = RetryPolicy(for_s=0.05, first_s=0.001, most_s=0.001)
    reading = await read_to_first_batch(follow(follower, retry=retry))
    await asyncio.sleep(0.1)
    store.failing["read_events"] = 1
    await append(store, 2, 3)
    assert joined(await reading) == ALL


async def test_look_that_fails_in_mid_stream_is_retried(store: BreakableStore, follower: LogFollower) -> None:
    look = FailingLook(failures=2)
    await append(store, 0, 1)
    reading = await read_to_first_batch(follow(follower, look, silence_s=0.001))
    await until(lambda: look.calls > 2, "the third look")
    await append(store, 2, 3)
    assert joined(await reading) == ALL


@pytest.mark.parametrize("fails", ["the log", "the look"])
async def test_store_outage_at_the_start_is_raised_at_once(
    store: BreakableStore, follower: LogFollower, fails: str
) -> None:
    look = FailingLook(failures=1_000)
    if fails == "the log":
        await append(store, 0)
        store.failing["read_events"] = 1
    with pytest.raises(StoreUnavailable):
        await read(follow(follower, look))
    assert look.calls == (fails == "the look")


async def test_finished_response_is_replayed_in_one_batch(follower: LogFollower) -> None:
    frames = replay.frames_of(ENDED)
    (batch,) = [batch async for batch in follower.replay(ENDED)]
    assert batch == Batch(0, len(frames), b"".join(frames), final_of_record(ENDED))


@pytest.fixture
def parsers(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads in which events are parsed, and replays made."""
    threads: list[threading.Thread] = []

    def noted(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(given: object) -> object:
            threads.append(threading.current_thread())
            return work(given)

        return run

    monkeypatch.setattr(events, "decode", noted(events.decode))
    monkeypatch.setattr(replay, "frames_of", noted(replay.frames_of))
    return threads


async def test_a_large_terminal_event_is_parsed_outside_the_event_loop(
    store: BreakableStore, follower: LogFollower, parsers: list[threading.Thread]
) -> None:
    large = BODY | {"output": [], "instructions": "x" * INLINE_BYTES_MAX}
    frames = events.encode({"type": events.COMPLETED, "sequence_number": 0, "response": large})
    await store.append_events(TENANT, EventAppend(RESPONSE_ID, 0, 1, frames, terminal=True))
    (followed,) = await read(follow(follower))
    (resumed,) = [batch async for batch in follower.resume(TENANT, ENDED)]
    assert followed.final == resumed.final is not None
    assert len(parsers) == 2
    assert threading.current_thread() not in parsers


async def test_a_large_response_is_replayed_outside_the_event_loop(
    follower: LogFollower, parsers: list[threading.Thread]
) -> None:
    large = replace(ENDED, output_items=b'[{"id":"i","type":"other","text":"%s"}]' % (b"x" * INLINE_BYTES_MAX))
    (batch,) = [batch async for batch in follower.replay(large)]
    assert batch.final == final_of_record(large)
    assert len(parsers) == 1
    assert threading.current_thread() not in parsers


async def test_log_state_has_the_events_the_token_ids_and_the_end_of_a_log() -> None:
    backend, response_id = row_backend("memory://"), new_response_id(RandomIds())
    await backend.open()
    store = StoreService(backend)
    assert (await event_logs.read_state(store, TENANT, response_id)).fold.next_sequence == 0
    created = events.encode({"type": events.CREATED, "response": {"id": response_id, "output": []}})
    other = events.encode({"type": events.KEEP_ALIVE})
    await store.append_events(TENANT, EventAppend(response_id, 0, 1, created, Checkpoint(0, (1, 2))))
    await store.append_events(TENANT, EventAppend(response_id, 1, 1, other, Checkpoint(2, (3,))))
    said = await event_logs.read_state(store, TENANT, response_id)
    assert (said.fold.next_sequence, said.fold.response()["id"], said.is_over) == (2, response_id, False)
    assert list(said.token_ids) == [1, 2, 3]
    ended = events.encode({"type": events.COMPLETED, "response": {"id": response_id}})
    await store.append_events(TENANT, EventAppend(response_id, 2, 1, ended, terminal=True))
    assert (await event_logs.read_state(store, TENANT, response_id)).is_over
    await backend.close()
