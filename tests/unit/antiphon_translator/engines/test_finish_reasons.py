from __future__ import annotations

import pytest

from antiphon_core.errors import AntiphonError, EngineFault, EngineOverloaded, EngineTimeout
from antiphon_translator.engines.finish_reasons import finish_reason, finish_reason_or_stop
from antiphon_translator.generation import FinishReason

STOP, LENGTH, FILTER = FinishReason.STOP, FinishReason.LENGTH, FinishReason.CONTENT_FILTER


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("stop tool_calls function_call stop_sequence eos_token eos end_turn STOP COMPLETE tool_use toolCalls", STOP),
        ("repetition", STOP),
        ("length max_tokens MAX_TOKENS model_length", LENGTH),
        ("content_filter SAFETY sensitive refusal", FILTER),
    ],
)
def test_known_reasons_have_their_meaning_in_any_case(words: str, reason: FinishReason) -> None:
    assert {finish_reason(word) for word in words.split()} == {reason}


@pytest.mark.parametrize(
    ("word", "error"),
    [
        *((word, EngineFault) for word in ("abort", "error", "cancelled", "network_error")),
        ("insufficient_system_resource", EngineOverloaded),
        ("timeout", EngineTimeout),
    ],
)
def test_reasons_of_a_broken_generation_are_errors(word: str, error: type[AntiphonError]) -> None:
    with pytest.raises(error, match=f"broke off the generation: {word}"):
        finish_reason(word)


@pytest.mark.parametrize("given", ["ominous", 7, {"type": "stop"}, ["stop"], True])
def test_unknown_reason_is_none_of_the_known_ones(given: object) -> None:
    assert finish_reason(given) is None


def test_unknown_reason_of_a_text_engine_is_logged_and_means_stop(caplog: pytest.LogCaptureFixture) -> None:
    assert (finish_reason_or_stop("length"), finish_reason_or_stop("ominous")) == (LENGTH, STOP)
    assert [record.getMessage() for record in caplog.records] == [
        "a model server sent an unknown finish reason: ominous"
    ]
