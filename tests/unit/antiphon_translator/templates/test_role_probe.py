from __future__ import annotations

import pytest

from antiphon_translator.templates import role_probe
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.templates.roles import CAPABILITIES, Roles

ANY = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
KNOWN = (
    "{% for m in messages %}{% if m.role in ['system', 'developer', 'user', 'assistant', 'tool'] %}"
    "[{{ m.role }}:{{ m.content }}]{% endif %}{% endfor %}"
)
FIRST_ONLY = (
    "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
    "{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}:{{ m.content }}]{% endif %}{% endfor %}"
)
GATHERED = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}"
    "{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}:{{ m.content }}]{% endif %}{% endfor %}"
)
ALTERNATING = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Alternate!') }}"
    "{% endif %}[{{ m.content }}]{% endfor %}"
)
SHORT_IDS = (
    "{% for m in messages %}{% if m.tool_call_id is defined and m.tool_call_id | length != 9 %}"
    "{{ raise_exception('Nine!') }}{% endif %}[{{ m.content }}]{% endfor %}"
)
FULL = (
    "{% for m in messages %}{% if not m.content and not m.tool_calls %}{{ raise_exception('Empty!') }}{% endif %}"
    "[{{ m.content }}]{% endfor %}"
)


@pytest.mark.parametrize(
    ("source", "lacking"),
    [
        (ANY, {"developer"}),
        (KNOWN, set()),
        (FIRST_ONLY, {"developer", "several_system", "late_system"}),
        (GATHERED, {"developer", "late_system"}),
        (
            ALTERNATING,
            {*CAPABILITIES} - {"empty", "long_call_ids"},
        ),
        (SHORT_IDS, {"developer", "long_call_ids"}),
        (FULL, {"developer", "empty"}),
    ],
)
def test_role_capabilities_are_detected_from_the_template(source: str, lacking: set[str]) -> None:
    roles = role_probe.of(JinjaTemplate(source, special_tokens={}).render)
    assert set(CAPABILITIES) - set(roles.names) == lacking


def test_template_that_rejects_everything_has_default_roles() -> None:
    assert role_probe.of(JinjaTemplate("{{ raise_exception('No.') }}", special_tokens={}).render) == Roles()


def test_reason_why_results_are_rejected_is_the_templates() -> None:
    appending = ANY + "{% if messages[-1].role == 'tool' %}{% set _ = messages.append(1) %}{% endif %}"
    rejecting, accepting = (JinjaTemplate(source, special_tokens={}) for source in (appending, ANY))
    assert "'append' of 'list' object is unsafe" in (role_probe.rejection_of_results(rejecting.render) or "")
    assert role_probe.rejection_of_results(accepting.render) is None
