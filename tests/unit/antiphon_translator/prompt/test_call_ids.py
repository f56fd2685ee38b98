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
    assert ids.of(Call("call_1", "f", {}, model_id), number=3, place=1) == expected
