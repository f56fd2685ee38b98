"""Real chat templates show the texts of each kind of message as they were sent, but for what they leave out by
themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon_translator.templates.content_form import ContentForm, ContentForms
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.templates.shown_cases import findings
from tests.golden.templates.test_prompts import TEMPLATES

HERE = Path(__file__).parent
KNOWN: dict[str, dict[str, str]] = json.loads((HERE / "shown.json").read_text("utf-8"))
PRINT_LISTS = {
    **dict.fromkeys(
        (
            *("GLM-4.6", "GLM-4.7-Flash", "moonshotai-Kimi-K2", "mistralai-Ministral-3-14B-Reasoning-2512"),
            *("unsloth-mistral-Devstral-Small-2507", "glm-5.1", "kimi", "spark"),
        ),
        ("tool", "the result of a call"),
    ),
    "google-gemma-4-31B-it": ("system", "a system message"),
}
"""The role whose lists each template prints, drops or rejects, and the case of it."""
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
OWN = {
    # After the descriptions of GLM-5.1's branch (vllm-project/vllm#39614) and of Kimi K2's (MoonshotAI/Kimi-K2#128).
    "glm-5.1": (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ m.content }}{% else %}{% for part in "
        "m.content %}{% for tool in tools if tool.name == part.name %}{{ tool | tojson }}{% endfor %}{% endfor %}"
        "{% endif %}{% for call in m.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}{% endfor %}"
    ),
    # Spark 2.5 joins the parts of a user's list and prints a result as it is.
    "spark": (
        "{% macro text_of(content) %}{% if content is string %}{{ content }}{% else %}{% for part in content %}"
        "{{ part.text }}{% endfor %}{% endif %}{% endmacro %}{% for m in messages %}<|{{ m.role }}|>{% if m.role == "
        "'tool' %}{{ m.content }}{% else %}{{ text_of(m.content or '') }}{% endif %}"
        "{% for call in m.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}{% endfor %}"
    ),
    "kimi": (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'tool' %}{{ m.tool_call_id }}{% endif %}{{ m.content }}"
        "{% for call in m.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}{% endfor %}"
    ),
}


def source_of(name: str) -> str:
    return OWN[name] if name in OWN else (HERE / f"{name}.jinja").read_text("utf-8")


def distorted(source: str, forms: ContentForms | None = None) -> dict[str, str]:
    """The cases that a template distorts, and how."""
    template = JinjaTemplate(source, special_tokens=SPECIAL_TOKENS, forms=forms)
    return {finding.case: finding.problem for finding in findings(template) if finding.is_distorted}


@pytest.mark.parametrize("path", [path for path in TEMPLATES if path.parent == HERE], ids=lambda path: path.stem)
def test_template_shows_each_kind_of_message_as_it_was_sent(path: Path) -> None:
    assert distorted(path.read_text("utf-8")) == KNOWN.get(path.stem, {})


@pytest.mark.parametrize(("name", "role", "case"), [(name, *lists) for name, lists in PRINT_LISTS.items()])
def test_template_that_prints_or_drops_lists_of_a_role_is_found_and_gets_texts(name: str, role: str, case: str) -> None:
    source, forced = source_of(name), ContentForms({role: ContentForm.PARTS})
    in_lists = set(findings(JinjaTemplate(source, special_tokens=SPECIAL_TOKENS, forms=forced)))
    in_texts = set(findings(JinjaTemplate(source, special_tokens=SPECIAL_TOKENS)))
    assert case in {finding.case for finding in in_lists}
    assert case not in {finding.case for finding in in_texts}
    assert not any("list of parts" in finding.problem for finding in in_texts)
