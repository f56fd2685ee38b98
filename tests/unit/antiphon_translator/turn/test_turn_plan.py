from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.errors import ContextLengthExceeded, EngineMisconfigured, InvalidRequest
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import ChatPrompt, Guide, GuideKind, Level, TextPrompt, TokenPrompt
from antiphon_translator.models.tenant_isolation import salt_of
from antiphon_translator.turn.turn_plan import TurnPlan
from tests.support.reasoning_model import reasoning_model
from tests.support.served_models import model, turn

ABLE = ALL_CONTROLS | {"guide", "stop", "logprobs", "top_logprobs"}
ANY_JSON: Object = {"text": {"format": {"type": "json_object"}}}
TOOL: Object = {"type": "function", "name": "look_up", "parameters": {"type": "object"}}


def plan(level: Level = Level.TOKENS, *, thinks: bool = False, **request: Any) -> TurnPlan:
    served = replace(reasoning_model(), can_reason=True) if thinks else model()
    return TurnPlan.of(served, turn("Hi", **request), controls=ABLE, ids=SequentialIds(), level=level)


@pytest.mark.parametrize(
    ("level", "kind"), [(Level.TOKENS, TokenPrompt), (Level.TEXT, TextPrompt), (Level.CHAT, ChatPrompt)]
)
def test_the_prompt_has_the_form_of_the_level(level: Level, kind: type) -> None:
    assert type(plan(level).request.prompt) is kind


@pytest.mark.parametrize("level", Level)
def test_a_prompt_that_is_certainly_too_long_is_rejected_for_its_length(level: Level) -> None:
    with pytest.raises(ContextLengthExceeded):
        TurnPlan.of(model(), turn("Hello world, " * 400_000), controls=ABLE, ids=SequentialIds(), level=level)


@pytest.mark.parametrize(
    ("request_", "priority"),
    [({}, None), ({"background": True}, 25), ({"service_tier": "flex"}, 25), ({"service_tier": "priority"}, None)],
)
def test_only_what_can_wait_has_a_priority(request_: dict[str, Any], priority: int | None) -> None:
    assert plan(**request_).request.priority == priority


def test_conversation_is_the_tree_of_the_response_and_not_its_id() -> None:
    given = turn("Hi")

    def conversation(response_id: str) -> str | None:
        asked = replace(given, response_id=response_id)
        return TurnPlan.of(model(), asked, controls=ABLE, ids=SequentialIds()).request.conversation

    tree, other = "resp_" + "a" * 16, "resp_" + "b" * 16
    found = [conversation(tree + "0" * 32), conversation(tree + "1" * 32), conversation(other + "0" * 32)]
    assert found[0] == found[1] != found[2]
    assert all(name is not None and "a" * 16 not in name for name in found)


def test_salt_of_a_turn_is_sent_where_the_profile_isolates_tenants() -> None:
    given = replace(turn("Hi"), cache_salt="s")
    isolating = model(isolates_tenants=True)
    asked = TurnPlan.of(isolating, given, controls=ABLE, ids=SequentialIds()).request
    assert asked.cache_salt == salt_of(given, "m")
    assert TurnPlan.of(model(), given, controls=ABLE, ids=SequentialIds()).request.cache_salt is None
    with pytest.raises(EngineMisconfigured):
        TurnPlan.of(isolating, turn("Hi"), controls=ABLE, ids=SequentialIds())


def test_guide_of_a_model_without_reasoning_holds_from_the_first_token() -> None:
    made = plan(**ANY_JSON)
    assert (made.request.guide, made.answer_guide) == (Guide(GuideKind.JSON), None)


def test_guide_of_a_model_that_reasons_waits_for_its_answer() -> None:
    made = plan(thinks=True, **ANY_JSON)
    assert (made.request.guide, made.answer_guide) == (None, Guide(GuideKind.JSON))


def test_chat_server_gets_the_guide_with_the_first_request() -> None:
    made = plan(Level.CHAT, thinks=True, **ANY_JSON)
    assert (made.request.guide, made.answer_guide) == (Guide(GuideKind.JSON), None)


def test_a_forced_call_has_its_own_guide() -> None:
    made = plan(thinks=True, tools=[TOOL], tool_choice="required", **ANY_JSON)
    assert (made.request.guide, made.answer_guide) == (made.prompt.forced.guide, None)


@pytest.mark.parametrize(
    ("level", "request_", "is_resumable"),
    [
        (Level.TOKENS, {}, True),
        (Level.TEXT, {}, False),
        (Level.CHAT, {}, False),
        (Level.TOKENS, ANY_JSON, False),
        (Level.TOKENS, {"top_logprobs": 2, "include": ["message.output_text.logprobs"]}, False),
    ],
)
def test_only_turns_of_plain_token_ids_are_resumable(level: Level, request_: Object, is_resumable: bool) -> None:
    assert plan(level, **request_).is_resumable is is_resumable


def test_response_skeleton_has_the_effective_values() -> None:
    made = plan(temperature=0.5, max_output_tokens=10**6)
    assert made.skeleton["temperature"] == 0.5
    assert made.skeleton["max_output_tokens"] == made.request.max_tokens < 10**6
    assert made.skeleton["status"] == "in_progress"


def test_unsupported_parameter_is_rejected_with_its_name() -> None:
    with pytest.raises(InvalidRequest, match="nvext.top_k"):
        TurnPlan.of(model(), turn("Hi", nvext={"top_k": 5}), controls=frozenset(), ids=SequentialIds())


def test_request_says_how_long_its_prompt_is_and_with_what_it_begins() -> None:
    made = plan(instructions="Be brief. " * 30).request
    assert made.prompt_tokens == len(made.prompt_as(TokenPrompt).ids)
    assert made.root is not None
    assert 0 < made.root.tokens < made.prompt_tokens
