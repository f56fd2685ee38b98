"""Small templates; real ones are in tests/golden/templates/test_shown_cases.py."""

from __future__ import annotations

from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.templates.shown_cases import Finding, findings

CALLS = "{% for call in m.tool_calls or [] %}{{ call.function | tojson }}{% endfor %}"


def found(source: str) -> list[Finding]:
    return list(findings(JinjaTemplate("{% for m in messages %}" + source + "{% endfor %}", special_tokens={})))


def test_template_that_shows_everything_has_no_findings() -> None:
    assert found("{{ m.content }}" + CALLS) == []


def test_case_that_is_distorted_or_rejected_is_named() -> None:
    no_runs = (
        "{% if loop.previtem is defined and loop.previtem.role == m.role == 'assistant' %}{{ raise_exception('') }}"
    )
    no_text_with_calls = no_runs + "{% endif %}{% if not m.tool_calls %}{{ m.content }}{% endif %}" + CALLS
    assert found(no_text_with_calls) == [Finding("a call behind a text", "the model reads nothing of 'foxtrot'", True)]
    one_call = "{% if (m.tool_calls or []) | length > 1 %}{{ raise_exception('one call') }}{% endif %}{{ m.content }}"
    (rejected,) = found(one_call + CALLS)
    assert (rejected.case, rejected.is_distorted) == ("two calls at once", False)


def test_arguments_in_pythons_form_are_found() -> None:
    calls = "{% for call in m.tool_calls or [] %}{{ call.function.name }}{{ call.function.arguments }}{% endfor %}"
    problems = {finding.case: finding.problem for finding in found("{{ m.content }}" + calls)}
    assert problems["a call with true and null"] == "the model reads Python's form of 'Rome'"
    assert "a call without arguments" not in problems


def test_result_in_parts_and_call_of_a_custom_tool_are_tried() -> None:
    first_line = "{% if m.role == 'tool' %}{{ m.content.split('\\n')[0] }}{% else %}{{ m.content }}{% endif %}"
    assert found(first_line + CALLS) == [Finding("a result in parts", "the model reads nothing of 'juliett'", True)]
    no_custom = "{% for call in m.tool_calls or [] if call.function.name != 'exec' %}{{ call.function | tojson }}"
    (finding,) = found("{{ m.content }}" + no_custom + "{% endfor %}")
    assert finding.case == "a call of a custom tool"


def test_cause_is_named_where_the_sandbox_refuses_a_template_with_tools() -> None:
    appending = "{{ m.content }}{% if m.role == 'tool' %}{% set _ = messages.append(m) %}{% endif %}"
    problems = {finding.case: finding.problem for finding in found(appending + CALLS)}
    assert "access to attribute 'append' of 'list' object is unsafe" in problems["the result of a call"]
