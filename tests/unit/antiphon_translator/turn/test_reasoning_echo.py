from __future__ import annotations

from typing import Any

import pytest

from antiphon_translator.turn import reasoning_echo


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
    assert reasoning_echo.effective({"reasoning": asked}, chosen, has_summary=has_summary) == {"reasoning": echoed}


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
    assert reasoning_echo.effective(asked, chosen, has_summary=False) == {}
