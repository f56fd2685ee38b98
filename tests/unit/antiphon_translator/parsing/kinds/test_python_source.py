from __future__ import annotations

import pytest

from antiphon_translator.parsing.kinds.python_source import PythonSource, calls_of


@pytest.mark.parametrize(
    ("arguments", "json"),
    [
        ("", "{}"),
        ("a=1, b='x)]', ", '{"a": 1, "b": "x)]"}'),
        ("from='a', class='b', None=1", '{"from": "a", "class": "b", "None": 1}'),
        ("max-results=3, a.b = 4", '{"max-results": 3, "a.b": 4}'),
        ("x='a=1, b(c=2)', y={'k': [1, (True, null)]}", '{"x": "a=1, b(c=2)", "y": {"k": [1, [true, null]]}}'),
        ("x='a' 'b',  # two parts\n y=-007", '{"x": "ab", "y": -7}'),
        ("x='a\ud800b'", '{"x": "a\ud800b"}'),
        ("x=1\n", '{"x": 1}'),
    ],
)
def test_named_literals_become_json(arguments: str, json: str) -> None:
    assert calls_of(f"f({arguments})") == [PythonSource("f", arguments, json)]


@pytest.mark.parametrize(
    "arguments",
    [
        *("1", "'a', x=1", "*a", "**{'x': 1}", "**a, x=1", "x=[*a]", "x={**{'a': 1}, 'b': 2}", "x={1, 2}"),
        *("x=y=1", "x==1", "x:=1", "x+=1", "x=a", "x=g(y=1)", "x=1 y=2", "x=1e999", "x=b'a'", "x=f'{a}'"),
        *("x for x in a", "x=lambda: 1", "'x'=1", "1a=2", "x=", "x=..."),
    ],
)
def test_other_arguments_are_kept_as_they_are_written(arguments: str) -> None:
    assert calls_of(f"f({arguments})") == [PythonSource("f", arguments, None)]


def test_calls_are_split_by_commas_lines_and_comments() -> None:
    source = "f(a=1), g-h.i()  # it's one\n\n;j (b='#')\n"
    assert [(each.name, each.json) for each in calls_of(source)] == [
        ("f", '{"a": 1}'),
        ("g-h.i", "{}"),
        ("j", '{"b": "#"}'),
    ]


@pytest.mark.parametrize("rest", [".g(y=2)", " + 1", ", 2", " if a else g()", "\nThe end."])
def test_text_behind_a_call_makes_all_of_it_one_call_that_cannot_be_read(rest: str) -> None:
    assert calls_of(f"f(x=1){rest}") == [PythonSource("f", f"x=1){rest}", None)]


def test_call_without_its_end_cannot_be_read() -> None:
    assert calls_of("f(), g(x='a)") == [PythonSource("f", "", "{}"), PythonSource("g", "x='a)", None)]
    assert calls_of("import os") == []
