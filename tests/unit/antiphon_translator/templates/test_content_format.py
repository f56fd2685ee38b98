from __future__ import annotations

import pytest
from jinja2 import Environment

from antiphon_translator.templates.content_format import loops_over_content

LIST = [
    "{% for m in messages %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endfor %}",
    "{% for m in messages %}{% for part in m['content'] %}{{ part.text }}{% endfor %}{% endfor %}",
    "{% for p in messages[0]['content'] | selectattr('type', 'equalto', 'text') %}{% endfor %}",
    "{% for m in messages %}{% set c = m.content %}{% for p in c %}{% endfor %}{% endfor %}",
    "{% for m in messages %}{% set a = m.content %}{% set b = a %}{% for p in b %}{% endfor %}{% endfor %}",
    "{% macro show(x, y) %}{% for p in y %}{% endfor %}{% endmacro %}{{ show(1, messages[0].content) }}",
    "{% macro show(x, y) %}{% for p in y %}{% endfor %}{% endmacro %}{{ show(1, y=messages[0].content) }}",
]
TEXT = [
    "{% for m in messages %}{{ m.content }}{% endfor %}",
    "{% for m in messages %}{{ m['content'] | trim }}{% endfor %}",
    "{% for m in messages %}{% for word in m.content.split() %}{{ word }}{% endfor %}{% endfor %}",
    "{% macro show(x, y) %}{% for p in x %}{% endfor %}{% endmacro %}{{ show(messages, messages[0].content) }}",
    "{% for m in messages %}{% for call in m.tool_calls %}{% endfor %}{% endfor %}",
]


@pytest.mark.parametrize("source", LIST)
def test_template_that_loops_over_the_content_takes_a_list(source: str) -> None:
    assert loops_over_content(Environment().parse(source))


@pytest.mark.parametrize("source", TEXT)
def test_template_without_a_loop_over_the_content_takes_text(source: str) -> None:
    assert not loops_over_content(Environment().parse(source))
