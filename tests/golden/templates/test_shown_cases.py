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
LISTS = dict.fromkeys(("system", "developer", "user", "assistant", "calling", "tool"), ContentForm.PARTS)
PRINT_LISTS = (
    *("GLM-4.6", "GLM-4.7-Flash", "google-gemma-4-31B-it", "moonshotai-Kimi-K2", "glm-5.1", "kimi"),
    *("mistralai-Ministral-3-14B-Reasoning-2512", "unsloth-mistral-Devstral-Small-2507"),
)
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
OWN = {
    # After the descriptions of GLM-5.1's branch (vllm-project/vllm#39614) and of Kimi K2's (MoonshotAI/Kimi-K2#128).
    "glm-5.1": (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ m.content }}{% else %}{% for part in "
        "m.content %}{% for tool in tools if tool.name == part.name %}{{ tool | tojson }}{% endfor %}{% endfor %}"
        "{% endif %}{% for call in m.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}{% endfor %}"
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


@pytest.mark.parametrize("name", PRINT_LISTS)
def test_template_that_prints_or_drops_lists_is_found_and_gets_texts(name: str) -> None:
    source = source_of(name)
    in_lists = list(findings(JinjaTemplate(source, special_tokens=SPECIAL_TOKENS, forms=ContentForms(LISTS))))
    in_texts = list(findings(JinjaTemplate(source, special_tokens=SPECIAL_TOKENS)))
    assert len(in_lists) > len(in_texts)
    assert "the result of a call" not in {finding.case for finding in in_texts}
    assert not any("list of parts" in finding.problem for finding in in_texts)
