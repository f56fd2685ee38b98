from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from antiphon_core import response
from antiphon_core.errors import EngineTimeout, ModelNotFound
from antiphon_core.jsons import dumps
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import EngineTimes, Final, Turn
from antiphon_core.telemetry import correlation, metrics
from antiphon_core.telemetry.correlation import Correlation
from antiphon_edge import phases
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.turn_watch import PAUSES_MAX, Delivery, TurnWatch
from tests.support.recorded_spans import recorded

OPENING = b"event: response.created\ndata: {}\n\n"
FIRST = b"event: response.output_item.added\ndata: {}\n\n"
DELTA = b"event: response.output_text.delta\ndata: {}\n\n"


def watch(model: str, delivery: Delivery = Delivery.CALLER) -> TurnWatch:
    return TurnWatch(AcceptedTurn("t", Turn("resp_1", 1, b"{}"), model=model), delivery)


def turns(model: str, status: str, delivery: str = "caller") -> int:
    child = metrics.TURN_DURATION.children().get((delivery, model, status))
    return 0 if child is None else child.count


def final(status: Status, body: bytes = b"{}") -> Final:
    return Final(status, body, b"[]")


def test_time_to_the_first_token_and_between_tokens_is_measured() -> None:
    turn = watch("t1")
    phases.begin()
    with turn.running():
        for frames in (OPENING, OPENING, FIRST, *[DELTA] * (PAUSES_MAX + 2)):
            turn.note_batch(frames)
        assert metrics.INTER_TOKEN.of("t1").count == PAUSES_MAX
    assert metrics.FIRST_TOKEN.of("caller", "t1").count == 1
    assert metrics.INTER_TOKEN.of("t1").count == PAUSES_MAX + 2
    assert phases.header(1).startswith("first-token;dur=")


def test_times_of_the_engine_are_phases_of_the_answer() -> None:
    turn = watch("t7")
    phases.begin()
    with turn.running():
        turn.note_end(replace(final(Status.COMPLETED), times=EngineTimes(queue_ns=2_500_000)))
    assert phases.header(1) == "engine-queue;dur=2.5, total;dur=1000.0"


def test_a_turn_that_ended_is_counted_with_its_status() -> None:
    turn = watch("t2")
    with recorded() as tracer, turn.running():
        assert correlation.current().response_id == "resp_1"
        assert metrics.TURNS_IN_FLIGHT.of("caller").value == 1
        turn.note_batch(FIRST)
        turn.note_end(final(Status.INCOMPLETE))
    assert turns("t2", "incomplete") == 1
    assert metrics.TURNS_IN_FLIGHT.of("caller").value == 0
    (span,) = tracer.spans
    assert (span.name, span.facts["antiphon.response.status"], span.error) == ("turn", "incomplete", "")


def test_a_failed_turn_is_counted_by_its_error() -> None:
    turn = watch("t3")
    failed = response.fail({"id": "resp_1", "output": []}, EngineTimeout("The engine is slow."))
    failures = {labels: child.value for labels, child in metrics.TURN_FAILURES.children().items()}
    with turn.running():
        turn.note_end(final(Status.FAILED, dumps(failed)))
    now = {labels: child.value for labels, child in metrics.TURN_FAILURES.children().items()}
    ((_, error),) = [labels for labels, value in now.items() if value != failures.get(labels, 0)]
    assert error.startswith("Engine")


@pytest.mark.parametrize(
    ("error", "delivery", "status"),
    [
        (ModelNotFound.of("x"), Delivery.CALLER, "rejected"),
        (asyncio.CancelledError(), Delivery.CALLER, "cancelled"),
        (asyncio.CancelledError(), Delivery.KEYED, "left"),
        (asyncio.CancelledError(), Delivery.BACKGROUND, "left"),
        (EngineTimeout("x"), Delivery.BACKGROUND, "left"),
    ],
)
def test_turn_without_an_end_is_counted_with_its_reason(error: BaseException, delivery: Delivery, status: str) -> None:
    before = turns("", status, delivery)
    with pytest.raises(type(error)), watch("anything that a request may say", delivery).running():
        raise error
    assert turns("", status, delivery) == before + 1
    assert not [labels for labels in metrics.TURN_DURATION.children() if "anything" in labels[1]]
    correlation.begin(Correlation())
