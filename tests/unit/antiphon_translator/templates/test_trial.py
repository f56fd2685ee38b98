from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_translator.parsing import families
from antiphon_translator.templates import trial
from antiphon_translator.templates.jinja import JinjaTemplate

TEMPLATES = Path(__file__).parents[3] / "golden" / "templates"
ONE_CALL = (
    "{% for m in messages %}{% if m.tool_calls and m.tool_calls|length > 1 %}{{ raise_exception('one!') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls %}<tool_call>"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments|tojson }}}</tool_call>{% endfor %}<end>'
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


def template(source: str) -> JinjaTemplate:
    return JinjaTemplate(source, special_tokens={"bos_token": "", "eos_token": ""})


def named(name: str) -> JinjaTemplate:
    return template((TEMPLATES / f"{name}.jinja").read_text("utf-8"))


def test_trial_output_is_the_text_of_the_turn_without_its_end() -> None:
    made = trial.of(named("Qwen-Qwen3-0.6B"))
    assert made.prompt_tail.endswith("<|im_start|>assistant\n")
    assert made.raw.startswith("<think>\nTwo cities.\n</think>\n\nLet me look.\n<tool_call>\n")
    assert made.raw.endswith("</tool_call>")
    assert made.calls == 2


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Qwen3-Coder", "qwen_coder"),
        ("GLM-4.6", "glm"),
        ("MiniMax-M2", "minimax_m2"),
        ("deepseek-ai-DeepSeek-V3.2", "deepseek_v32"),
        ("Mistral-Small-3.2-24B-Instruct-2506", "mistral"),
    ],
)
def test_output_of_a_template_is_read_only_by_its_family(name: str, family: str) -> None:
    made = trial.of(named(name))
    assert trial.read(families.load(family), made).lacks(made) == []
    assert trial.read(families.load("plain"), made).lacks(made)


def test_trial_of_a_template_that_rejects_two_calls_has_one() -> None:
    made = trial.of(template(ONE_CALL))
    assert (
        made.raw
        == 'Let me look.<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}</tool_call>'
    )
    assert trial.read(families.load("hermes"), made).lacks(made) == []


def test_trial_of_a_template_that_rejects_everything_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="never"):
        trial.of(template("{{ raise_exception('never') }}"))


def test_tag_begun_within_the_output_belongs_to_it() -> None:
    begun = "{% for m in messages %}{{ m.content }}</a>{% endfor %}{% if add_generation_prompt %}<b>{% endif %}"
    source = begun.replace("{{ m.content }}", "{% if m.role == 'assistant' %}<c>{% endif %}{{ m.content }}")
    assert trial.of(template(source)).raw == "<c>Let me look."
