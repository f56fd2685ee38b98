"""Prompts for gpt-oss equal those of openai-harmony. The template of the models differs in listed cases."""

from __future__ import annotations

from functools import cache

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_translator.templates.jinja import JinjaTemplate
from tests.golden.templates.test_detection import HERE as TEMPLATES
from tests.support.harmony import ours
from tests.support.harmony.conversations import CASES, Case
from tests.support.harmony.recording import recorded

# Differences of the chat template that comes with the models.
_TOOLS = "a comma between a default and its comment; only the first line of a description is a comment"
_CALLS = "`json` without <|constrain|>; a result quoted as a JSON string"
TEMPLATE_DIFFERS = {
    "instructions": "an empty line behind the instructions, even if nothing follows",
    "tools": _TOOLS,
    "tools-without-instructions": _TOOLS,
    "tool-without-description": "refused",
    "free-form-parameters": "shown as a function without parameters",
    "every-schema": "refused: enum members have to be texts, defaults of enums too",
    "call-and-result": _CALLS,
    "result-in-parts": _CALLS,
    "preamble-before-a-call": "refused: either a thought or a preamble may stand before a call",
    "preamble-and-more-thoughts": "the preamble is an answer, and so the thought before it is gone",
    "calls-side-by-side": "only the first call is shown, and both results are its own",
    "one-call-after-the-other": _CALLS,
    "thoughts-before-an-answer-are-dropped": _CALLS,
    "thoughts-between-answers-are-dropped": _CALLS,
    "developers-in-the-midst": "what a developer says later is left out",
    "instructions-from-everywhere": "only the first of several developers is shown",
    "markers-that-somebody-spelt": _CALLS,
}


@cache
def template_of_the_models() -> JinjaTemplate:
    return JinjaTemplate((TEMPLATES / "openai-gpt-oss-120b.jinja").read_text("utf-8"), special_tokens={})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_prompt_equals_that_of_openai_harmony(case: Case) -> None:
    assert ours.prompt(case) == recorded().prompts[case.id]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_template_of_the_models_differs_only_where_it_is_listed(case: Case) -> None:
    try:
        written = ours.prompt(case, template_of_the_models())
    except InvalidRequest:
        written = "refused"
    assert (written != recorded().prompts[case.id]) is (case.id in TEMPLATE_DIFFERS)
    assert (written == "refused") is TEMPLATE_DIFFERS.get(case.id, "").startswith("refused")


def test_every_listed_difference_names_a_case() -> None:
    assert set(TEMPLATE_DIFFERS) < {case.id for case in CASES} == set(recorded().prompts)
