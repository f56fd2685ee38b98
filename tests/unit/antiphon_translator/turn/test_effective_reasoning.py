from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.request.options import Reasoning
from antiphon_translator.generation import Level
from antiphon_translator.turn import effective_reasoning
from tests.support.reasoning_model import log_of_play, reasoning_model
from tests.support.served_models import model

SAID = ("<think>", "Hm. Well.", "</think>", "Yes.")


@pytest.mark.parametrize(
    ("members", "level", "changes", "told"),
    [
        ({"summary": "auto"}, Level.TOKENS, {"can_reason": True}, True),
        ({"generate_summary": "concise"}, Level.TEXT, {"can_reason": True}, True),
        ({"summary": "auto"}, Level.TOKENS, {"can_reason": False}, False),
        ({"summary": "auto"}, Level.CHAT, {"can_reason": False}, True),
        ({"summary": "auto"}, Level.CHAT, {"shows_reasoning": False}, False),
        ({"effort": "high"}, Level.CHAT, {"can_reason": True}, False),
    ],
)
def test_summary_is_given_only_if_requested_and_permitted(
    members: dict[str, Any], level: Level, changes: dict[str, Any], told: bool
) -> None:
    assert effective_reasoning.has_summary(Reasoning(**members), model(**changes), level) is told


@pytest.mark.parametrize("cut", [1, 4, 9])
def test_summary_is_the_reasoning_text_for_any_cut(cut: int) -> None:
    served = replace(reasoning_model(), can_reason=True)
    told = log_of_play(*SAID, cuts=[cut], served=served, reasoning={"summary": "auto"})[-1]["response"]
    thought, answer = told["output"]
    assert (thought["summary"], thought["content"]) == ([{"type": "summary_text", "text": "Hm. Well."}], [])
    assert answer["content"][0]["text"] == "Yes."
    assert told["reasoning"] == {"effort": None, "summary": "detailed"}


def test_model_without_a_summary_shows_its_reasoning_text() -> None:
    served = replace(reasoning_model(), can_reason=True, shows_reasoning=False)
    told = log_of_play(*SAID, served=served, reasoning={"summary": "auto"})[-1]["response"]
    assert (told["output"][0]["summary"], told["output"][0]["content"][0]["text"]) == ([], "Hm. Well.")
    assert told["reasoning"]["summary"] is None


@pytest.mark.parametrize(
    ("asked", "chosen", "has_summary", "echoed"),
    [
        ({"effort": "low", "summary": "auto"}, {}, True, {"effort": "low", "summary": "detailed"}),
        ({"generate_summary": "concise"}, {}, True, {"summary": "detailed"}),
        ({"effort": "low", "summary": "concise"}, {}, False, {"effort": "low", "summary": None}),
        ({"effort": "max"}, {"reasoning_effort": "high"}, False, {"effort": "high"}),
        ({"effort": "low", "summary": "auto"}, None, True, {"effort": None, "summary": "detailed"}),
        (
            {"effort": "minimal", "summary": "auto"},
            {"reasoning_effort": "low"},
            False,
            {"effort": "low", "summary": None},
        ),
    ],
)
def test_response_echoes_the_reasoning_in_effect(
    asked: dict[str, str], chosen: dict[str, Any] | None, has_summary: bool, echoed: dict[str, Any]
) -> None:
    assert effective_reasoning.reasoning_in_effect({"reasoning": asked}, chosen, has_summary=has_summary) == {
        "reasoning": echoed
    }


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ({}, {}),
        ({"reasoning": None}, {}),
        ({"reasoning": {"effort": None}}, {}),
        ({"reasoning": {"effort": None}}, None),
        ({"reasoning": {"effort": "none"}}, {"enable_thinking": False}),
        ({"reasoning": {"effort": "max"}}, {"enable_thinking": True}),
        ({"reasoning": {"effort": "max"}}, {"reasoning_effort": "max"}),
    ],
)
def test_reasoning_in_effect_as_requested_changes_nothing(asked: dict[str, Any], chosen: dict[str, Any] | None) -> None:
    assert effective_reasoning.reasoning_in_effect(asked, chosen, has_summary=False) == {}
