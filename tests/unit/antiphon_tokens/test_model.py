"""Triton's side with an engine that the test plays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from antiphon_tokens import arguments, engine, requests
from antiphon_tokens.engine import Capabilities, LoadError
from antiphon_tokens.generation import Facts, FinishReason, Generation, Limits, RequestError, Token
from antiphon_tokens.model import TritonPythonModel
from antiphon_tokens.signature import QUEUE_METRIC, REQUESTS_METRIC
from tests.support.triton_backend import LOGGED, MetricFamily, Request, TritonError, request
from tests.support.waiting import WAIT_MAX_S, until


class PlayedEngine:
    """Keeps what is submitted and cancelled."""

    def __init__(self) -> None:
        self.submitted: list[tuple[Generation, Any]] = []
        self.cancelled: list[Any] = []
        self.has_cancelled = Event()
        self.error: Exception | None = None
        self.is_closed = False

    def submit(self, generation: Generation, listener: Any) -> None:
        if self.error is not None:
            raise self.error
        self.submitted.append((generation, listener))

    def cancel(self, listener: Any) -> None:
        if listener not in [each for _, each in self.submitted]:
            return  # it is not known yet, or has ended
        self.cancelled.append(listener)
        listener.on_end(FinishReason.CANCELLED)
        self.has_cancelled.set()

    def capabilities(self) -> Capabilities:
        return Capabilities("a played engine", frozenset(), Limits(9))

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def played() -> PlayedEngine:
    return PlayedEngine()


@pytest.fixture
def served(played: PlayedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TritonPythonModel]:
    loaded: list[Any] = []

    def load_played(*given: Any) -> PlayedEngine:
        loaded.append(given)
        return played

    modules = {"played": SimpleNamespace(load=load_played)}
    monkeypatch.setattr(engine, "module", modules.get)
    made = TritonPythonModel()
    made.initialize(args_for(tmp_path))
    assert loaded == [({"slots": 4}, {"guide", "cache_salt"})]
    assert LOGGED[-1] == "m: a played engine is ready"
    yield made
    made.finalize()
    assert played.is_closed


def args_for(folder: Path) -> dict[str, str]:
    (folder / "1").mkdir()
    (folder / "1" / arguments.FILE).write_text("slots: 4", "utf-8")
    inputs = ["input_ids", "guided_decoding_guide", "cache_salt"]
    config = {
        "name": "m",
        "input": [{"name": name} for name in inputs],
        "parameters": {"engine": {"string_value": "played"}},
    }
    return {"model_config": json.dumps(config), "model_repository": str(folder), "model_version": "1"}


def start(served: TritonPythonModel, asked: Request) -> Any:
    submission = served.accept(asked)
    if submission is not None:
        submission.result(WAIT_MAX_S)
    return asked.sender


def test_request_is_submitted_and_answered(served: TritonPythonModel, played: PlayedEngine) -> None:
    sender = start(served, request([5, 6], streaming=True))
    [(generation, reply)] = played.submitted
    reply.on_tokens([Token(3)], Facts())
    reply.on_end(FinishReason.STOP)
    assert generation.prompt == [5, 6]
    assert [outputs["output_ids"] for outputs in sender.outputs()] == [[3], []]
    assert served.running.idle() == []


def test_requests_are_read_on_threads_of_their_own(served: TritonPythonModel, played: PlayedEngine) -> None:
    served.execute([request([number]) for number in (1, 2, 3)])
    served.reading.shutdown()
    assert sorted(list(generation.prompt) for generation, _ in played.submitted) == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RequestError("no such guide"), TritonError("no such guide", TritonError.INVALID_ARG)),
        (KeyError("a"), TritonError("the model failed: KeyError('a')", TritonError.INTERNAL)),
    ],
)
def test_error_of_the_engine_is_a_response(
    served: TritonPythonModel, played: PlayedEngine, error: Exception, expected: TritonError
) -> None:
    played.error = error
    assert start(served, request([1])).error() == expected
    assert served.running.idle() == []


def test_input_that_cannot_be_read_is_a_response(served: TritonPythonModel) -> None:
    error = start(served, request([1], beam_width=2)).error()
    assert error == TritonError("beam_width other than 1 is not supported", TritonError.INVALID_ARG)


def test_stop_request_ends_the_requests_of_its_id(served: TritonPythonModel, played: PlayedEngine) -> None:
    others = [start(served, request([number], id=name)) for number, name in ((1, "a"), (2, "b"))]
    stop = start(served, request([0], id="a", stop=True))
    assert [reply.request_id for reply in played.cancelled] == ["a"]
    assert [sender.is_closed() for sender in (*others, stop)] == [True, False, True]
    error = start(served, request([0], stop=True)).error()
    assert error == TritonError("a stop request needs the request id of the request to stop", TritonError.INVALID_ARG)


def test_client_that_leaves_before_the_first_token_is_noticed(served: TritonPythonModel, played: PlayedEngine) -> None:
    gone, here = start(served, request([1], id="gone")), start(served, request([2], id="here"))
    gone.cancelled = True
    assert played.has_cancelled.wait(WAIT_MAX_S)
    assert [reply.request_id for reply in played.cancelled] == ["gone"]
    assert not here.is_closed()


def test_stop_request_ends_a_request_that_is_still_read(
    served: TritonPythonModel, played: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the reading of a long prompt takes longer than that of the stop request behind it."""
    may_go_on, read = Event(), requests.read_generation

    def read_slowly(asked: Any) -> Generation:
        assert may_go_on.wait(WAIT_MAX_S)
        return read(asked)

    monkeypatch.setattr(requests, "read_generation", read_slowly)
    asked, stop = request([1], id="a", streaming=True), request([0], id="a", stop=True)
    submission = served.accept(asked)
    served.execute([stop])
    assert stop.sender.is_closed()
    may_go_on.set()
    assert submission is not None
    submission.result(WAIT_MAX_S)
    assert [outputs["finish_reason"] for outputs in asked.sender.outputs()] == [["cancelled"]]
    assert (played.submitted, served.running.idle()) == ([], [])


def test_stop_request_during_the_submission_ends_the_request(
    served: TritonPythonModel, played: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a new guide is tried: the engine knows the request only afterwards."""

    def submit(generation: Generation, listener: Any) -> None:
        served.execute([request([0], id="a", stop=True)])
        played.submitted.append((generation, listener))

    monkeypatch.setattr(played, "submit", submit)
    assert start(served, request([1], id="a")).is_closed()
    assert [reply.request_id for reply in played.cancelled] == ["a"]


def test_new_guides_do_not_delay_requests_without_one(
    served: TritonPythonModel, played: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_tried, submit = Event(), played.submit

    def submit_tried(generation: Generation, listener: Any) -> None:
        assert generation.guide is None or is_tried.wait(WAIT_MAX_S)
        submit(generation, listener)

    monkeypatch.setattr(played, "submit", submit_tried)
    guided = [served.accept(request([number], guided_decoding_guide_type="json")) for number in range(4)]
    start(served, request([9]))
    assert [list(generation.prompt) for generation, _ in played.submitted] == [[9]]
    is_tried.set()
    for submission in guided:
        assert submission is not None
        submission.result(WAIT_MAX_S)
    assert len(played.submitted) == 5


async def test_load_is_shown_as_metrics_of_triton(served: TritonPythonModel) -> None:
    start(served, request([1], streaming=True))
    gauges = MetricFamily.families[REQUESTS_METRIC]
    await until(lambda: gauges.values.get(("m", "1", "waiting")) == 1, "the request is among the metrics")
    assert gauges.values["m", "1", "running"] == 0
    assert MetricFamily.families[QUEUE_METRIC].values["m", "1"] > 0


def test_mistake_in_the_arguments_fails_the_load(tmp_path: Path) -> None:
    args = args_for(tmp_path)
    (tmp_path / "1" / arguments.FILE).write_text("slots: four", "utf-8")
    with pytest.raises(LoadError, match="the value of slots must be JSON"):
        TritonPythonModel().initialize(args)
