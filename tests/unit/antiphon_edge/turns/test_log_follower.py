from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from antiphon_core import events, replay
from antiphon_core.errors import LogNotFound, StoreUnavailable
from antiphon_core.jsons import Object
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Record, Status
from antiphon_core.ports.translator import Batch
from antiphon_edge.turns import log_follower
from antiphon_edge.turns.log_follower import LogFollower, final_of
from antiphon_edge.turns.store_retry import RetryPolicy
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from tests.support.background import TENANT, MortalStore, hasten
from tests.support.waiting import WAIT_MAX_S

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
async def store(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MortalStore]:
    hasten(monkeypatch)
    backend = row_backend("memory://")
    await backend.open()
    yield MortalStore(StoreService(backend))
    await backend.close()


@pytest.fixture
def follower(store: MortalStore) -> LogFollower:
    return LogFollower(cast("FullStore", store))


async def append(store: MortalStore, *numbers: int) -> None:
    frames = b"".join(map(frame, numbers))
    await store.append_events(
        TENANT, EventAppend(RESPONSE_ID, numbers[0], len(numbers), frames, terminal=numbers[-1] == 3)
    )


async def read(follower: LogFollower, **options: float) -> list[Batch]:
    async with asyncio.timeout(WAIT_MAX_S):
        return [batch async for batch in follower.follow(TENANT, RESPONSE_ID, **options)]  # type: ignore[arg-type]


async def begun(follower: LogFollower) -> asyncio.Task[list[Batch]]:
    """A reading that has got something."""
    has_begun = asyncio.Event()

    async def read_on() -> list[Batch]:
        batches = []
        async for batch in follower.follow(TENANT, RESPONSE_ID):
            batches.append(batch)
            has_begun.set()
        return batches

    reading = asyncio.create_task(read_on())
    async with asyncio.timeout(WAIT_MAX_S):
        await has_begun.wait()
    return reading


def joined(batches: list[Batch]) -> bytes:
    return b"".join(batch.frames for batch in batches)


@pytest.mark.parametrize("after", [None, 0, 1, 2, 3, 9])
async def test_what_was_told_is_read_from_any_place(
    store: MortalStore, follower: LogFollower, after: int | None
) -> None:
    await append(store, 0, 1, 2, 3)
    batches = await read(follower) if after is None else await read(follower, after=after)
    assert joined(batches) == b"".join(frame(number) for number in range(4) if after is None or number > after)


async def test_the_last_batch_says_how_it_ended(store: MortalStore, follower: LogFollower) -> None:
    await append(store, 0, 1)
    await append(store, 2, 3)
    batches = await read(follower)
    assert [batch.final for batch in batches[:-1]] == [None] * (len(batches) - 1)
    assert batches[-1].final == final_of(ENDED)


async def test_what_comes_is_told_as_it_comes(store: MortalStore, follower: LogFollower) -> None:
    reading = asyncio.create_task(read(follower))
    await asyncio.sleep(0.02)  # there is no log yet
    await append(store, 0)
    await asyncio.sleep(0.02)
    await append(store, 1, 2)
    await append(store, 3)
    assert joined(await reading) == ALL


async def test_a_log_that_does_not_come_is_missed_in_the_end(follower: LogFollower) -> None:
    for timeout_s in (0, 0.02):
        with pytest.raises(LogNotFound):
            await read(follower, missing_for_s=timeout_s)


async def test_a_store_that_is_away_for_a_moment_costs_nothing(store: MortalStore, follower: LogFollower) -> None:
    await append(store, 0, 1)
    reading = await begun(follower)
    store.failing["read_events"] = 1  # what comes next is lost on its way
    await append(store, 2)
    await asyncio.sleep(0.02)
    await append(store, 3)
    assert joined(await reading) == ALL


async def test_a_store_that_stays_away_is_told(
    store: MortalStore, follower: LogFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_follower, "STORE_BACK", RetryPolicy(for_s=0.02, first_s=0.005))
    await append(store, 0, 1)
    reading = await begun(follower)
    store.failing["read_events"] = 1_000
    await append(store, 2)
    with pytest.raises(StoreUnavailable):
        await reading


async def test_a_log_that_was_quiet_for_long_survives_a_store_that_is_away(
    store: MortalStore, follower: LogFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that a store has to come back begins when it goes, not with the last event before."""
    monkeypatch.setattr(log_follower, "STORE_BACK", RetryPolicy(for_s=0.05, first_s=0.001, most_s=0.001))
    await append(store, 0, 1)
    reading = await begun(follower)
    await asyncio.sleep(0.1)
    store.failing["read_events"] = 1
    await append(store, 2, 3)
    assert joined(await reading) == ALL


async def test_a_store_that_is_away_from_the_start_is_told_at_once(store: MortalStore, follower: LogFollower) -> None:
    await append(store, 0)
    store.failing["read_events"] = 1
    with pytest.raises(StoreUnavailable):
        await read(follower)


async def test_a_finished_response_is_told_again_as_a_whole(follower: LogFollower) -> None:
    frames = replay.frames_of(ENDED)
    (batch,) = [batch async for batch in follower.replay(ENDED)]
    assert batch == Batch(0, len(frames), b"".join(frames), final_of(ENDED))


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
    store: MortalStore, follower: LogFollower, parsers: list[threading.Thread]
) -> None:
    large = BODY | {"output": [], "instructions": "x" * INLINE_BYTES_MAX}
    frames = events.encode({"type": events.COMPLETED, "sequence_number": 0, "response": large})
    await store.append_events(TENANT, EventAppend(RESPONSE_ID, 0, 1, frames, terminal=True))
    (followed,) = await read(follower)
    (resumed,) = [batch async for batch in follower.resume(TENANT, ENDED)]
    assert followed.final == resumed.final is not None
    assert len(parsers) == 2
    assert threading.current_thread() not in parsers


async def test_a_large_response_is_replayed_outside_the_event_loop(
    follower: LogFollower, parsers: list[threading.Thread]
) -> None:
    large = replace(ENDED, output_items=b'[{"id":"i","type":"other","text":"%s"}]' % (b"x" * INLINE_BYTES_MAX))
    (batch,) = [batch async for batch in follower.replay(large)]
    assert batch.final == final_of(large)
    assert len(parsers) == 1
    assert threading.current_thread() not in parsers
