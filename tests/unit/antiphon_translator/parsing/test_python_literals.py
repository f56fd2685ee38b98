from __future__ import annotations

import ast

import pytest

from antiphon_translator.parsing import python_literals
from antiphon_translator.parsing.python_literals import UNREADABLE, json_of, value_of


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("'a\nb'", "a\nb"),
        ("'\\d'", "\\d"),
        ("007", 7),
        ("00", 0),
        ("0.5", 0.5),
        ("-1", -1),
        ("[true, False, null]", [True, False, None]),
        ("(1, 'x')", [1, "x"]),
        ("{'a': {'b': [1]}}", {"a": {"b": [1]}}),
        ("['\ud800']", ["\ud800"]),
        ("f()", None),
        ("{**a}", None),
        ("[1", None),
        ("[" * 10_000, None),
    ],
)
def test_literal_is_read_as_models_write_it(source: str, value: object) -> None:
    assert value_of(source) == value


@pytest.mark.parametrize("source", ["[1e999]", "{1}", "b'x'", "..."])
def test_literal_without_json_has_none(source: str) -> None:
    assert json_of(source) is None


def test_json_of_a_literal_keeps_characters() -> None:
    assert json_of("['é', True]") == '["é", true]'


def test_source_that_is_no_literal_raises_one_of_the_errors() -> None:
    with pytest.raises(UNREADABLE):
        python_literals.value(ast.parse("f(x)", mode="eval").body)
