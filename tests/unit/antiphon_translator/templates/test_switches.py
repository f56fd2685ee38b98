from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_translator.templates.switches import of_effort


@pytest.mark.parametrize(
    ("effort", "variables", "switches"),
    [
        (None, {"enable_thinking", "reasoning_effort"}, {}),
        ("none", {"enable_thinking"}, {"enable_thinking": False}),
        ("high", {"enable_thinking"}, {"enable_thinking": True}),
        ("none", {"thinking", "reasoning_effort"}, {"thinking": False}),
        ("minimal", {"reasoning_effort"}, {"reasoning_effort": "low"}),
        ("medium", {"reasoning_effort"}, {"reasoning_effort": "medium"}),
        ("max", {"thinking", "reasoning_effort"}, {"thinking": True, "reasoning_effort": "high"}),
        ("high", set(), {}),
    ],
)
def test_effort_sets_the_switches_of_the_template(
    effort: str | None, variables: set[str], switches: dict[str, Any]
) -> None:
    assert of_effort(effort, variables, reasons=True) == switches


def test_effort_none_for_a_model_that_always_reasons_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="always reasons") as caught:
        of_effort("none", {"reasoning_effort"}, reasons=True)
    assert caught.value.field == "reasoning.effort"


def test_effort_none_for_a_model_that_never_reasons_sets_no_switch() -> None:
    assert of_effort("none", set(), reasons=False) == {}


@pytest.mark.parametrize(
    ("effort", "literals", "level"),
    [
        ("max", {"max", "xhigh"}, "max"),
        ("max", {"xhigh"}, "xhigh"),
        ("xhigh", {"xhigh"}, "xhigh"),
        ("xhigh", {"max"}, "high"),
        ("max", set(), "high"),
        ("minimal", {"minimal"}, "minimal"),
        ("minimal", set(), "low"),
        ("medium", {"max"}, "medium"),
    ],
)
def test_a_level_is_passed_on_to_a_template_that_names_it(effort: str, literals: set[str], level: str) -> None:
    assert of_effort(effort, {"reasoning_effort"}, reasons=True, literals=literals) == {"reasoning_effort": level}
