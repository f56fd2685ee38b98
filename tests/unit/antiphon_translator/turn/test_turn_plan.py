from __future__ import annotations

from copy import deepcopy

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.translator import Batch
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import EngineChunk, FinishReason, Level
from antiphon_translator.parsing.segments import Text
from antiphon_translator.pipeline import TurnPipeline
from antiphon_translator.turn import turn_plan
from antiphon_translator.turn.turn_plan import PLAN_REQUEST_BYTES_MAX, plan_of
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
    """A whole turn, from its first event to its last."""
    pipeline = TurnPipeline(model(), turn("Hi", **given), controls=ABLE, ids=SequentialIds(), level=Level.CHAT)
    begun, _ = pipeline.start()
    chunk = EngineChunk(segments=(Text('{"age": 3}'),), finish=FinishReason.STOP)
    return [*begun, *pipeline.receive([chunk]), *pipeline.finish(completed_at=7)]


def test_same_parameters_are_read_once() -> None:
    first, second = (plan_of(request(temperature=0.25), ABLE, Level.CHAT) for _ in range(2))
    assert first is second


def test_plan_is_for_the_controls_and_the_level_of_an_engine() -> None:
    given = request(stop="END")
    assert plan_of(given, frozenset(), Level.TOKENS).parameters.stop_texts == ("END",)
    with pytest.raises(InvalidRequest, match="'stop'"):
        plan_of(given, frozenset(), Level.CHAT)
    assert plan_of(given, ABLE, Level.CHAT).parameters.stop_texts == ("END",)


def test_invalid_parameters_are_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(InvalidRequest):
            plan_of(request(temperature=3), ABLE, Level.CHAT)


def test_large_parameters_are_not_kept() -> None:
    given = request(instructions="x" * PLAN_REQUEST_BYTES_MAX)
    assert plan_of(given, ABLE, Level.CHAT) is not plan_of(given, ABLE, Level.CHAT)


def test_number_of_kept_plans_has_a_limit() -> None:
    for number in range(2 * turn_plan.PLANS_KEPT_MAX):
        plan_of(request(user=str(number)), ABLE, Level.CHAT)
    assert turn_plan._kept.cache_info().currsize == turn_plan.PLANS_KEPT_MAX


def test_turn_leaves_the_plan_as_it_was() -> None:
    plan = plan_of(turn("Hi", **RICH).request, ABLE, Level.CHAT)
    before = deepcopy((plan.asked, plan.parameters.model_dump()))
    first = events(RICH)
    assert (plan.asked, plan.parameters.model_dump()) == before
    assert events(RICH) == first
