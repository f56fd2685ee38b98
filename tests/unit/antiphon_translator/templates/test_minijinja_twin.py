from __future__ import annotations

import json
from typing import Any, NoReturn

import minijinja
import pytest

from antiphon_core.clock import ManualClock
from antiphon_translator.conversation import Call, Conversation, Message
from antiphon_translator.templates import jinja as jinja_module
from antiphon_translator.templates import minijinja_twin
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.templates.minijinja_twin import COMPARED_EVERY, COMPARED_FIRST, Context, MinijinjaTwin

TEXTS = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
PROMPT = "[user:Hi]"


class Jinja:
    """A renderer with a fixed result that counts its calls."""

    def __init__(self, says: str = PROMPT) -> None:
        self.says = says
        self.calls = 0

    def __call__(self, given: Context) -> str:
        self.calls += 1
        return self.says


def refuse(message: str) -> NoReturn:
    raise minijinja.TemplateError(message)


def twin_of(source: str = TEXTS, jinja: Jinja | None = None, *, messages_most: int = 10) -> MinijinjaTwin:
    made = MinijinjaTwin(source, jinja or Jinja(), to_json=json.dumps, raise_exception=refuse)
    made._messages_max = messages_most
    return made


def offer(*texts: str, tools: Any = None, **message: Any) -> Context:
    return {"messages": [{"role": "user", "content": text} | message for text in texts or ("Hi",)], "tools": tools}


def test_first_prompts_and_a_sample_of_later_ones_are_compared() -> None:
    jinja = Jinja()
    twin = twin_of(jinja=jinja)
    for _ in range(COMPARED_EVERY):
        assert twin.render(offer()) == PROMPT
    assert jinja.calls == COMPARED_FIRST + 1


def test_twin_with_a_different_prompt_is_disabled_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    jinja = Jinja()
    twin = twin_of(jinja=jinja)
    assert twin.render(offer()) == PROMPT
    jinja.says = "[user:Ho]"
    assert [twin.render(offer()) for _ in range(3)] == [None] * 3
    assert jinja.calls == 2
    assert "rendered by Jinja from now on" in caplog.text


def test_conversation_that_minijinja_rejects_is_left_to_jinja() -> None:
    assert twin_of("{{ raise_exception('no') }}").render(offer()) is None


@pytest.mark.parametrize(
    "given",
    [
        offer(*["x"] * 11),
        offer("x" * (minijinja_twin.TEXT_CHARS_MAX + 1)),
        offer("a\x1cb"),
        offer(tools=[{"function": {"parameters": {"default": 2.0}}}]),
        offer(tool_calls=[{"function": {"arguments": {"a": [{"b": 1e20}]}}}]),
    ],
    ids=["messages", "text", "space", "tools", "calls"],
)
def test_input_that_may_differ_or_take_long_is_left_to_jinja(given: Context) -> None:
    assert twin_of().render(given) is None


def test_text_in_parts_counts_toward_the_length_limit() -> None:
    parts = [{"type": "text", "text": "x" * minijinja_twin.TEXT_CHARS_MAX}, {"type": "image"}, {"text": "y"}]
    assert twin_of().render({"messages": [{"role": "user", "content": parts}], "tools": None}) is None


def test_message_limit_of_the_twin_adapts_to_the_render_time() -> None:
    twin = twin_of(messages_most=100)
    twin._adapt_max(60, 0.001)
    assert twin._messages_max == 120
    twin._adapt_max(10, 0.001)
    assert twin._messages_max == 120
    twin._adapt_max(110, 1.0)
    assert twin._messages_max == 55
    twin._adapt_max(1, 1.0)
    assert twin._messages_max == 1


@pytest.mark.parametrize(
    ("source", "agrees"),
    [
        (TEXTS, True),
        ("{% generation %}{% set x = 1 %}a{%- endgeneration -%} {{ x is defined }}", True),
        ("{{ messages[0].content is sequence }}", False),
        ("{{ messages[9].content }}", True),  # both raise an error
    ],
)
def test_twin_agrees_only_if_it_writes_the_prompt_of_jinja(source: str, agrees: bool) -> None:
    template = JinjaTemplate(source, special_tokens={})
    probe = template._context(Conversation((Message("user", ("Hi",)),)))
    twin = MinijinjaTwin(source, template._template.render, to_json=json.dumps, raise_exception=refuse)
    assert twin.agrees([probe]) is agrees


def timed_twin(source: str, *, jinja_s: float = 0.0) -> MinijinjaTwin:
    """A twin with a manual clock: each `tojson` takes one millisecond and Jinja takes `jinja_s`."""
    clock = ManualClock()

    def jinja(_given: Context) -> str:
        clock.advance(jinja_s)
        return PROMPT

    def to_json(_value: object) -> str:
        clock.advance(0.001)
        return ""

    return MinijinjaTwin(source, jinja, to_json=to_json, raise_exception=refuse, cpu_now_s=clock.monotonic)


@pytest.mark.parametrize(("jinja_s", "is_faster"), [(0.013, True), (0.011, False)])
def test_twin_is_used_only_if_it_is_faster_than_jinja(jinja_s: float, is_faster: bool) -> None:
    twin = timed_twin("{% for m in messages %}{{ m | tojson }}{% endfor %}", jinja_s=jinja_s)
    assert twin.is_faster(offer(*["x"] * 4), offer(*["x"] * 8)) is is_faster
    assert 4 <= twin._messages_max <= 5  # one message takes a millisecond, and the limit is five milliseconds


def test_message_limit_of_a_superlinear_template_stays_at_the_probed_length() -> None:
    loop = "{% for x in messages %}"
    twin = timed_twin(loop * 3 + "{{ 1 | tojson }}" + "{% endfor %}" * 3)
    twin.is_faster(offer(*["x"] * 2), offer(*["x"] * 4))
    assert twin._messages_max == 4


def test_minijinja_and_jinja_write_equal_prompts() -> None:
    functions = "(m.tool_calls or []) | map(attribute='function') | list"
    source = f"{{% for m in messages %}}{{{{ m.content }}}}{{{{ {functions} | tojson }}}}{{% endfor %}}"
    template = JinjaTemplate(source, special_tokens={})
    template._twin = MinijinjaTwin(
        source, template._template.render, to_json=jinja_module._to_json, raise_exception=refuse
    )
    template._twin._messages_max = 2
    for value in ("é\n\"'<b>&", -3, True, None, [1, {"b": "c", "a": []}], 2.0):
        call = Call("c", "f", {"value": value})
        shown = Conversation((Message("user", ("Hi",)), Message("assistant", calls=(call,))))
        written = template.render(shown, now_s=0)
        assert written == template._template.render(template._context(shown))
        assert json.loads(written.removeprefix("Hi[]")) == [{"name": "f", "arguments": call.arguments}]
