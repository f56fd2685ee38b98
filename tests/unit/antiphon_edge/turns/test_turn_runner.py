from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from antiphon_core import events
from antiphon_core.errors import (
    EngineUnavailable,
    ResponseNotFound,
    TooLarge,
)
from antiphon_core.fold import fold
from antiphon_core.jsons import Object
from antiphon_core.ports.jobs import JobState
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.turn_timing import JOB_LEASE_MS
from antiphon_store.testing.faulty import Fault, When
from tests.support.turn_bench import FAST, TENANT, TIMING, Bench
from tests.support.waiting import until


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.backend.open()
    yield bench
    await bench.settle()
    await bench.backend.close()


async def overtaken(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> tuple[AcceptedTurn, list[Object]]:
    """A turn that loses its session to another holder in mid-stream, and the events of its stream."""
    bench.use(replace(TIMING, session_pace=FAST))
    bench.engine.pause_at = 9
    accepted = await bench.begin(key=key, session_id="s")
    playing = asyncio.create_task(bench.play(accepted))
    await bench.until_it_pauses()
    assert accepted.fence is not None
    await bench.store.release_session(TENANT, accepted.fence)
    await bench.store.acquire_session(TENANT, "s", holder="other")
    return accepted, await playing


async def test_keyed_turn_that_failed_before_output_does_not_become_the_head(bench: Bench) -> None:
    await bench.play(await bench.begin(session_id="s"))
    before = await bench.store.describe_session(TENANT, "s")
    bench.engine.pause_at, bench.engine.fault = 0, EngineUnavailable("overloaded")
    accepted = await bench.begin(key="k", session_id="s")
    log = await bench.play(accepted)
    assert fold(log) == await bench.stored(accepted)
    session = await bench.store.describe_session(TENANT, "s")
    assert (session.head_id, session.lease) == (before.head_id, None)
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.SUCCEEDED
    bench.engine.pause_at = None
    again = await bench.begin(key="k", session_id="s")
    assert (await bench.play(again))[-1]["type"] == events.COMPLETED


@pytest.mark.parametrize("pause_at", [0, 9, 16])
async def test_expired_job_lease_does_not_end_a_turn_that_was_not_taken_over(bench: Bench, pause_at: int) -> None:
    """Simulates a store outage longer than the lease: the store's clock advances, and no heartbeat arrives."""
    bench.engine.pause_at = pause_at
    accepted = await bench.begin(key="k")
    playing = asyncio.create_task(bench.play(accepted))
    await asyncio.sleep(0.02)
    bench.clock.advance(JOB_LEASE_MS / 1000)
    bench.engine.go.set()
    log = await playing
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert log == await bench.logged(accepted)
    assert (log[-1]["type"], log[-1]["response"]) == (events.COMPLETED, await bench.stored(accepted))
    assert len(bench.engine.requests) == 1
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.SUCCEEDED


@pytest.mark.parametrize("key", [None, "k"])
async def test_turn_whose_session_is_lost_stops_its_model_and_leaves_no_record(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    accepted, log = await overtaken(bench, monkeypatch, key)
    assert bench.engine.stopped.is_set()
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]
    assert (log[-2]["code"], log[-2]["param"]) == ("conversation_lost", "conversation")
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    with pytest.raises(ResponseNotFound):
        await bench.stored(accepted)
    session = await bench.store.describe_session(TENANT, "s")
    assert session.lease is not None
    assert (session.head_id, session.lease.holder) == (None, "other")


async def test_keyed_turn_whose_session_is_lost_releases_its_key_and_ends_its_log(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted, log = await overtaken(bench, monkeypatch, "k")
    assert await bench.logged(accepted) == log
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.SUCCEEDED
    lease = (await bench.store.describe_session(TENANT, "s")).lease
    assert lease is not None
    await bench.store.release_session(TENANT, lease.fence)
    bench.engine.pause_at = None
    assert (await bench.play(await bench.begin(key="k", session_id="s")))[-1]["type"] == events.COMPLETED


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_session_whose_turn_cannot_be_stored_is_free_at_once(bench: Bench, key: str | None) -> None:
    bench.backend.plan(Fault("commit_turn", When.BEFORE, error=TooLarge))
    accepted = await bench.begin(key=key, session_id="s")
    assert (await bench.play(accepted))[-2]["code"] == "request_too_large"
    assert (await bench.store.describe_session(TENANT, "s")).lease is None


@pytest.mark.parametrize("key", [None, "k"])
async def test_session_lost_during_the_commit_is_reported_as_conversation_lost(bench: Bench, key: str | None) -> None:
    bench.slow.go.clear()
    accepted = await bench.begin(key=key, session_id="s")
    playing = asyncio.create_task(bench.play(accepted))
    await bench.slow.asked.wait()
    assert accepted.fence is not None
    await bench.store.release_session(TENANT, accepted.fence)
    bench.slow.go.set()
    assert (await playing)[-2]["code"] == "conversation_lost"
    assert (await bench.play(await bench.begin(key=key, session_id="s")))[-1]["type"] == events.COMPLETED


async def test_failed_session_renewals_do_not_end_the_turn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.use(replace(TIMING, session_pace=FAST))
    bench.engine.pause_at = 9
    accepted = await bench.begin(session_id="s")
    bench.backend.plan(*[Fault("renew_session", When.BEFORE)] * 3)
    playing = asyncio.create_task(bench.play(accepted))
    await until(lambda: not bench.backend.planned, "the planned faults")
    bench.engine.go.set()
    assert (await playing)[-1]["type"] == events.COMPLETED
