from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.errors import (
    EngineUnavailable,
    LogNotFound,
    ModelNotFound,
    StaleFence,
    StoreUnavailable,
)
from antiphon_core.fold import fold
from antiphon_core.jsons import Object
from antiphon_core.limits import EVENT_LOG_WAITING_BYTES_MAX
from antiphon_core.ports.jobs import JobState
from antiphon_core.ports.translator import Batch
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.turn_runner import TurnRun
from antiphon_edge.turns.turn_watch import Delivery
from antiphon_store.testing.faulty import Fault, When
from tests.support.translators import ScriptedTranslator
from tests.support.turn_bench import TENANT, Bench, request_of
from tests.support.turn_streams import sent


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.backend.open()
    yield bench
    await bench.settle()
    await bench.backend.close()


async def until_its_text(batches: AsyncGenerator[Batch, None]) -> AsyncIterator[Batch]:
    """The batches up to the first text of the answer."""
    async for batch in batches:
        yield batch
        if b"output_text.delta" in batch.frames:
            return


async def without_event_log(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> tuple[AcceptedTurn, list[Object]]:
    """A turn whose event log cannot be written behind its first events, and the events of its stream."""

    async def refuse(*_: Any, **__: Any) -> int:
        raise error

    bench.engine.pause_at = 5
    accepted = await bench.begin(key="k")
    playing = asyncio.create_task(bench.play(accepted))
    await bench.until_it_pauses()
    monkeypatch.setattr(bench.slow, "append_events", refuse, raising=False)
    bench.engine.go.set()
    log = await playing
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    return accepted, log


async def test_completed_turn_is_stored_and_has_no_event_log(bench: Bench) -> None:
    accepted = await bench.begin()
    log = await bench.play(accepted)
    assert fold(log) == log[-1]["response"] == await bench.stored(accepted)
    with pytest.raises(LogNotFound):
        await bench.logged(accepted)


async def test_keyed_turn_logs_its_stream_and_settles_its_job(bench: Bench) -> None:
    accepted = await bench.begin(key="k")
    assert await bench.play(accepted) == await bench.logged(accepted)
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.SUCCEEDED


async def test_client_disconnect_during_the_commit_does_not_undo_it(bench: Bench) -> None:
    bench.slow.go.clear()
    accepted = await bench.begin(session_id="s")
    caller = asyncio.create_task(bench.play(accepted))
    await bench.slow.asked.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    bench.slow.go.set()
    await bench.settle()
    assert (await bench.stored(accepted))["status"] == "completed"
    assert (await bench.store.describe_session(TENANT, "s")).lease is None


async def test_client_disconnect_in_mid_stream_stops_the_model_and_records_cancelled(bench: Bench) -> None:
    bench.engine.pause_at = 9
    accepted = await bench.begin(session_id="s")
    async with aclosing(bench.run(accepted)) as batches:
        async for batch in batches:
            if b"output_text.delta" in batch.frames:
                break
    assert bench.engine.stopped.is_set()
    await bench.settle()
    assert (await bench.stored(accepted))["status"] == "cancelled"
    assert (await bench.store.describe_session(TENANT, "s")).lease is None


async def test_usage_of_a_turn_is_charged_once(bench: Bench) -> None:
    log = await bench.play(await bench.begin())
    assert bench.charged == [(TENANT, log[-1]["response"]["usage"]["total_tokens"])]


async def test_output_sent_before_a_client_disconnect_is_charged(bench: Bench) -> None:
    bench.engine.pause_at = 9
    async with aclosing(bench.run(await bench.begin())) as batches:
        async for _ in until_its_text(batches):
            pass
    await bench.settle()
    sent_ids = [token for batch in bench.sent for token in batch.token_ids]
    assert bench.charged == [(TENANT, len(sent_ids))]
    assert sent_ids


async def test_turn_rejected_before_its_first_event_is_not_charged(bench: Bench) -> None:
    with pytest.raises(ModelNotFound):
        await bench.play(await bench.begin(model="other"))
    assert bench.charged == []


async def test_broken_turn_without_token_ids_is_charged_zero_tokens() -> None:
    bench = Bench(ScriptedTranslator(fault=ZeroDivisionError()))
    await bench.backend.open()
    assert (await bench.play(await bench.begin()))[-1]["type"] == events.FAILED
    assert bench.charged == [(TENANT, 0)]  # this translator sends no token ids


async def test_turn_is_charged_for_its_failed_summary() -> None:
    fault = EngineUnavailable("gone")
    fault.usage = {"total_tokens": 7}
    bench = Bench(ScriptedTranslator(fault=fault))
    await bench.backend.open()
    await bench.play(await bench.begin())
    assert bench.charged == [(TENANT, 7), (TENANT, 0)]


async def test_interrupted_keyed_turn_is_not_charged_by_its_first_edge(bench: Bench) -> None:
    bench.engine.pause_at = 9
    accepted = await bench.begin(key="k")
    async with aclosing(bench.run(accepted)) as batches:
        async for _ in until_its_text(batches):
            pass
    await bench.settle()
    assert bench.charged == []


async def test_rejected_turn_has_released_its_session_and_key_when_the_error_is_raised(bench: Bench) -> None:
    for options in ({"session_id": "s"}, {"key": "k"}):
        accepted = await bench.begin(model="other", **options)
        with pytest.raises(ModelNotFound):
            await bench.play(accepted)
        again = await bench.begin(**options)
        assert again.response_id != accepted.response_id
        await bench.play(again)


async def test_keyed_turn_whose_failure_cannot_be_stored_is_queued_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.engine.pause_at, bench.engine.fault = 0, EngineUnavailable("overloaded")
    accepted = await bench.begin(key="k")
    bench.backend.plan(Fault("commit_turn", When.BEFORE))
    await bench.play(accepted)
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.QUEUED


async def test_failed_release_does_not_hide_the_error_of_the_turn(bench: Bench) -> None:
    accepted = await bench.begin(model="other", session_id="s")
    bench.backend.plan(Fault("abort_turn", When.BEFORE))
    with pytest.raises(ModelNotFound):
        await bench.play(accepted)


async def test_turn_completes_when_its_event_log_cannot_be_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted, log = await without_event_log(bench, monkeypatch, StoreUnavailable("full"))
    assert log[-1]["type"] == events.COMPLETED
    assert await bench.stored(accepted) == log[-1]["response"]
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.SUCCEEDED


async def test_turn_with_an_incomplete_event_log_is_replayed_from_its_record(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted, log = await without_event_log(bench, monkeypatch, StoreUnavailable("full"))
    again = sent(bench.turns, TENANT, request_of(), key="k")
    async with asyncio.timeout(5):
        told = [event async for batch in again for event in events.decode(batch.frames)]
    assert fold(told) == log[-1]["response"] == await bench.stored(accepted)


async def test_turn_taken_over_by_another_edge_ends_as_failed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = StaleFence.of("s", token=1)
    _, log = await without_event_log(bench, monkeypatch, stale)
    assert [event["type"] for event in log[-2:]] == [events.ERROR, events.FAILED]


async def test_keyed_turn_whose_job_cannot_be_enqueued_releases_its_key(bench: Bench) -> None:
    bench.backend.plan(Fault("enqueue_job", When.BEFORE))
    with pytest.raises(StoreUnavailable):
        await bench.begin(key="k")
    await bench.settle()
    assert isinstance(await bench.begin(key="k"), AcceptedTurn)


async def test_a_keyed_turn_whose_record_is_left_to_another_edge_is_charged_by_that_edge(bench: Bench) -> None:
    accepted = await bench.begin(key="k")
    bench.backend.plan(Fault("commit_turn", When.BEFORE))
    assert (await bench.play(accepted))[-1]["type"] == events.FAILED
    assert bench.charged == []


async def test_the_event_log_of_a_released_turn_is_not_appended_to(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> int:
        raise StoreUnavailable("away")

    bench.engine.pause_at = 5
    accepted = await bench.begin(key="k")
    run = TurnRun(accepted, delivery=Delivery.KEYED)
    running = asyncio.create_task(bench.keyed_turns._run(run))
    await bench.until_it_pauses()
    assert run.event_log is not None
    monkeypatch.setattr(bench.slow, "append_events", refuse, raising=False)
    for number, size_bytes in enumerate((1, EVENT_LOG_WAITING_BYTES_MAX + 1), run.state.next_sequence):
        run.event_log.put(Batch(number, 1, b":" * size_bytes + b"\n\n"))
        with pytest.raises(StoreUnavailable):
            await run.event_log.flush()
    running.cancel()
    await asyncio.wait([running])
    await bench.settle()
    monkeypatch.undo()
    for _ in range(100):
        await asyncio.sleep(0)
    assert (await bench.store.describe_job(TENANT, accepted.response_id)).state is JobState.QUEUED
