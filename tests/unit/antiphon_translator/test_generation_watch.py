from __future__ import annotations

import asyncio
import logging
from array import array
from dataclasses import replace

import pytest

from antiphon_core.errors import EngineFault
from antiphon_core.ports.translator import EngineTimes, Usage
from antiphon_core.telemetry import correlation, metrics
from antiphon_core.telemetry.correlation import Correlation
from antiphon_translator.generation_watch import GenerationWatch
from antiphon_translator.lineage.ancestors import Ancestors, Outcome
from antiphon_translator.lineage.turn_lineage import TurnLineage
from tests.support.recorded_spans import recorded
from tests.support.served_models import prompt_of


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


@pytest.mark.parametrize(
    ("cached", "counts"),
    [
        (0, {"cached": 0, "lost": 4, "new": 3}),
        (3, {"cached": 3, "lost": 1, "new": 3}),
        (6, {"cached": 6, "lost": 0, "new": 1}),  # another chain has the same beginning
        (None, {}),
    ],
)
def test_tokens_of_a_prompt_are_cached_lost_or_new(cached: int | None, counts: dict[str, int]) -> None:
    name = f"g6 {cached}"
    ancestor = TurnLineage(7, prompt_tokens=2, written_ids=array("i", (3, 4)))
    prompt = replace(prompt_of([1, 2, 3, 4, 5, 6, 7]), ancestors=Ancestors([ancestor]))
    watch = GenerationWatch(name, "resp_1")
    watch.note_usage(Usage(7, 1, cached_tokens=cached, lost_to="evicted"))
    watch.note_prompt(prompt)
    found = {labels[1]: child.value for labels, child in metrics.CACHE_TOKENS.children().items() if labels[0] == name}
    assert found == counts
    lost = {labels[1]: child.value for labels, child in metrics.LOST_TOKENS.children().items() if labels[0] == name}
    assert lost == ({"evicted": counts["lost"]} if counts.get("lost") else {})


def test_lineages_and_spliced_tokens_of_a_prompt_are_counted() -> None:
    prompt = prompt_of([1, 2, 3])
    assert prompt.encoded is not None
    ancestors = Ancestors([TurnLineage(7)], {Outcome.MISSING: 2, Outcome.FOREIGN: 0, Outcome.DIFFERS: 3})
    outcomes = ("held", "missing", "foreign", "differs")
    before = [metrics.LINEAGES.of(each).value for each in outcomes], metrics.SPLICED_TOKENS.of().value
    given = replace(prompt, encoded=replace(prompt.encoded, spliced=5), ancestors=ancestors)
    GenerationWatch("g7", "resp_1").note_prompt(given)
    after = [metrics.LINEAGES.of(each).value for each in outcomes], metrics.SPLICED_TOKENS.of().value
    assert [now - then for now, then in zip(after[0], before[0], strict=True)] == [1, 2, 0, 3]
    assert after[1] - before[1] == 5


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
