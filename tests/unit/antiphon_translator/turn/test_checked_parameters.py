from __future__ import annotations

from copy import deepcopy

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.translator import Batch
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import ChatChunk, FinishReason, Level
from antiphon_translator.parsing.segments import Text
from antiphon_translator.turn import checked_parameters
from antiphon_translator.turn.checked_parameters import KEPT_REQUEST_BYTES_MAX, check_parameters
from tests.support.pipelines import pipeline_of
from tests.support.served_models import model, turn

ABLE = ALL_CONTROLS | {"guide", "stop"}
SCHEMA: Object = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
FORMAT: Object = {"format": {"type": "json_schema", "name": "person", "schema": SCHEMA}}
TOOL: Object = {"type": "function", "name": "look_up", "parameters": SCHEMA}
RICH: Object = {
    "text": FORMAT,
    "tools": [TOOL],
    "metadata": {"a": "b"},
    "reasoning": {"effort": "low"},
    "stop": ["END"],
    "temperature": 0.5,
}


def request(**members: object) -> bytes:
    return dumps({"model": "m"} | members)


def events(given: Object) -> list[Batch]:
    """All batches of a whole turn."""
    pipeline = pipeline_of(model(), turn("Hi", **given), controls=ABLE, ids=SequentialIds(), level=Level.CHAT)
    begun, _ = pipeline.start()
    chunk = ChatChunk((Text('{"age": 3}'),), finish=FinishReason.STOP)
    return [*begun, *pipeline.receive([chunk]), *pipeline.finish(completed_at=7)]


def test_same_parameters_are_read_once() -> None:
    first, second = (check_parameters(request(temperature=0.25), ABLE) for _ in range(2))
    assert first is second


def test_parameters_are_checked_for_the_controls_and_the_level_of_an_engine() -> None:
    given = request(stop="END")
    assert check_parameters(given, frozenset()).parameters.stop_texts == ("END",)
    with pytest.raises(InvalidRequest, match="'stop'"):
        check_parameters(given, frozenset(), finds_stops=False)
    assert check_parameters(given, ABLE, finds_stops=False).parameters.stop_texts == ("END",)


def test_invalid_parameters_are_rejected_each_time() -> None:
    for _ in range(2):
        with pytest.raises(InvalidRequest):
            check_parameters(request(temperature=3), ABLE)


def test_large_parameters_are_not_cached() -> None:
    given = request(instructions="x" * KEPT_REQUEST_BYTES_MAX)
    assert check_parameters(given, ABLE) is not check_parameters(given, ABLE)


def test_number_of_cached_parameters_has_a_limit() -> None:
    for number in range(2 * checked_parameters.PARAMETERS_KEPT_MAX):
        check_parameters(request(user=str(number)), ABLE)
    assert checked_parameters._kept.cache_info().currsize == checked_parameters.PARAMETERS_KEPT_MAX


def test_turn_does_not_change_the_cached_parameters() -> None:
    kept = check_parameters(turn("Hi", **RICH).request, ABLE)
    before = deepcopy((kept.asked, kept.parameters.model_dump()))
    first = events(RICH)
    assert (kept.asked, kept.parameters.model_dump()) == before
    assert events(RICH) == first
