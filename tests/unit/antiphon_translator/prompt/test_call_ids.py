from __future__ import annotations

import pytest

from antiphon_translator.conversation import Call
from antiphon_translator.prompt import call_ids
from antiphon_translator.prompt.call_ids import CallIds
from antiphon_translator.templates.jinja import JinjaTemplate

FORM = "functions.NAME:INDEX"
CALLS = "{% for call in m.tool_calls or [] %}%{% endfor %}"
RESULT = "{% if m.role == 'tool' %}{{ m.tool_call_id }}{% endif %}{{ m.content }}"


@pytest.mark.parametrize(
    ("call", "are_made"),
    [("{{ call.id }}", False), ("functions.{{ call.function.name }}:{{ loop.index0 }}", True), ("", True)],
)
def test_template_that_makes_the_ids_of_calls_is_found(call: str, are_made: bool) -> None:
    source = "{% for m in messages %}" + RESULT + CALLS.replace("%{%", call + "{%") + "{% endfor %}"
    template = JinjaTemplate(source, special_tokens={})
    assert call_ids.of(FORM, template.render) == CallIds(FORM, are_made)
    assert call_ids.of("", template.render) == call_ids.ANY


def test_template_that_rejects_the_probe_gets_ids_of_the_form() -> None:
    template = JinjaTemplate("{{ raise_exception('no') }}", special_tokens={})
    assert call_ids.of(FORM, template.render) == CallIds(FORM)


@pytest.mark.parametrize(
    ("ids", "model_id", "expected"),
    [
        (call_ids.ANY, "", ""),
        (call_ids.ANY, "functions.f:9", "functions.f:9"),
        (CallIds(FORM), "", "functions.f:3"),
        (CallIds(FORM), "functions.f:9", "functions.f:9"),
        (CallIds(FORM, are_made=True), "functions.f:9", "functions.f:1"),
    ],
)
def test_id_is_the_models_own_or_has_its_form(ids: CallIds, model_id: str, expected: str) -> None:
    assert ids.of(Call("call_1", "f", {}, model_id), used=(), number=3, place=1) == expected


@pytest.mark.parametrize(
    ("ids", "model_id", "expected"),
    [
        (CallIds(FORM), "", "functions.f:4"),
        (CallIds(FORM), "functions.f:3", "functions.f:4"),
        (call_ids.ANY, "functions.f:3", ""),
    ],
)
def test_id_that_another_call_has_is_not_given_again(ids: CallIds, model_id: str, expected: str) -> None:
    assert ids.of(Call("call_1", "f", {}, model_id), used={"functions.f:3"}, number=3, place=0) == expected


@pytest.mark.parametrize(
    ("model_id", "name", "is_named"),
    [
        ("functions.get_weather:0", "get_weather", True),
        ("get_weather:12", "get_weather", True),
        ("functions.weather.get:1", "weather.get", True),
        ("call_9f:0", "call", False),
        ("chatcmpl-tool-0123", "tool", False),
        ("functions.forget:0", "get", False),
        ("functions.get_weather:0x", "get_weather", False),
    ],
)
def test_id_of_a_model_has_the_name_of_the_tool_and_a_number(model_id: str, name: str, is_named: bool) -> None:
    assert call_ids.is_named(model_id, name) is is_named
