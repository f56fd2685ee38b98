from __future__ import annotations

import asyncio
import logging

import pytest

from antiphon_core.errors import EngineFault
from antiphon_core.ports.translator import EngineTimes, Usage
from antiphon_core.telemetry import correlation, metrics
from antiphon_core.telemetry.correlation import Correlation
from antiphon_translator.generation_watch import GenerationWatch
from tests.support.recorded_spans import recorded


def test_turn_is_recorded_as_a_span_with_its_usage() -> None:
    watch = GenerationWatch("g1", "resp_1")
    with recorded() as tracer, watch.running():
        assert correlation.current().response_id == "resp_1"
        assert metrics.GENERATIONS_IN_FLIGHT.of("g1").value == 1
        with watch.building_prompt():
            pass
        watch.note_usage(Usage(5, 7, reasoning_tokens=2, cached_tokens=3))
    assert tracer.parents() == {"chat g1": "", "build prompt": "chat g1"}
    facts = tracer.spans[0].facts
    assert (facts["gen_ai.usage.input_tokens"], facts["gen_ai.usage.output_tokens"]) == (5, 7)
    tokens = {labels[1]: child.value for labels, child in metrics.TOKENS.children().items() if labels[0] == "g1"}
    assert tokens == {"input": 5, "cached": 3, "output": 7, "reasoning": 2}
    assert metrics.GENERATIONS_IN_FLIGHT.of("g1").value == 0
    assert metrics.PROMPT.of("g1").count == 1


def test_answer_that_does_not_match_its_format_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    watch = GenerationWatch("g4", "resp_1")
    with caplog.at_level(logging.WARNING):
        watch.note_check(None, is_unchecked=False)
        watch.note_check(None, is_unchecked=True)
        watch.note_check("it is no JSON", is_unchecked=False)
    assert metrics.FORMAT_UNCHECKED.of("g4").value == 1
    assert metrics.FORMAT_MISMATCHES.of("g4").value == 1
    assert caplog.messages == ["the answer of resp_1 does not match its format: it is no JSON"]


def test_only_what_the_engine_reports_is_counted() -> None:
    GenerationWatch("g5", "resp_1").note_usage(Usage(5, 7, times=EngineTimes(queue_ns=2 * 10**9)))
    assert not any(labels == ("g5", "cached") for labels in metrics.TOKENS.children())
    assert (metrics.ENGINE_QUEUE.of("g5").count, metrics.ENGINE_PREFILL.of("g5").count) == (1, 0)
    assert metrics.ENGINE_QUEUE.of("g5").sum == 2
    with recorded() as tracer:
        watch = GenerationWatch("g5", "resp_1")
        with watch.running():
            watch.note_usage(Usage(5, 7))
    assert "gen_ai.usage.cache_read.input_tokens" not in tracer.spans[0].facts


def test_first_output_of_a_generation_is_measured_once() -> None:
    watch = GenerationWatch("g2", "resp_1")
    assert not watch.is_waiting
    with watch.generating():
        assert watch.is_waiting
        watch.note_first_output()
        assert not watch.is_waiting
    assert metrics.ENGINE_FIRST_OUTPUT.of("g2").count == 1
    assert metrics.ENGINE_DURATION.of("g2", "ok").count == 1


@pytest.mark.parametrize(("error", "outcome"), [(EngineFault("x"), "failed"), (asyncio.CancelledError(), "cancelled")])
def test_generation_that_ends_early_is_measured_with_its_outcome(error: BaseException, outcome: str) -> None:
    watch = GenerationWatch("g3", "resp_1")
    with pytest.raises(type(error)), watch.generating():
        raise error
    assert metrics.ENGINE_DURATION.of("g3", outcome).count == 1
    correlation.begin(Correlation())
