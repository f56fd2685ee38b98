from __future__ import annotations

import pytest

from antiphon_translator.parsing.segments import Arguments, Break, CallBegin, CallEnd, Dropped, Output, Reasoning, Text


def test_white_space_that_only_separates_is_left_out() -> None:
    out = Output()
    out.reasoning("\n thought\n")
    out.reasoning("\n")
    out.text("\n\nanswer ")
    out.begin_call("f")
    out.arguments("{}")
    out.end_call()
    out.text("\n rest\n")
    out.finish()
    assert out.take() == [
        *(
            Reasoning("thought"),
            Text("answer"),
            CallBegin("f"),
            Arguments("{}"),
            CallEnd(True),
            Text("rest"),
            Text("\n"),
        )
    ]
    assert out.take() == []


def test_white_space_within_an_answer_and_around_it_is_part_of_it() -> None:
    out = Output()
    for part in (" ", " a", " ", "\n", "b "):
        out.text(part)
    out.finish()
    assert "".join(each.text for each in out.take() if isinstance(each, Text)) == "  a \nb "


@pytest.mark.parametrize(
    ("arguments", "is_complete"),
    [
        ('{"a": 1}', True),
        (' {"a": ' + "9" * 5000 + "} ", True),
        ("{bad}", False),
        ("[]", False),
        ("", False),
        ('{"a": NaN}', False),
        ('{"a": ' + "[" * 100_000, False),
    ],
)
def test_a_call_is_complete_if_its_arguments_are_an_object(arguments: str, is_complete: bool) -> None:
    out = Output()
    out.begin_call("f")
    out.arguments(arguments)
    assert out.has_arguments is bool(arguments)
    out.end_call()
    assert out.take()[-1] == CallEnd(is_complete)


def test_a_call_that_something_else_follows_was_broken_off() -> None:
    for follow in (lambda out: out.text("a"), lambda out: out.reasoning("a"), Output.separate, Output.finish):
        out = Output()
        out.begin_call("f")
        out.arguments("{}")
        follow(out)
        assert out.take()[:3] == [CallBegin("f"), Arguments("{}"), CallEnd(False)]


def test_what_is_dropped_is_told_without_its_outer_white_space() -> None:
    out = Output()
    out.text("before ")
    out.drop(" \n")
    out.drop(" noise ")
    out.drop("more\n")
    out.text("after")
    assert out.take() == [Text("before"), Dropped("noise"), Dropped(" more"), Text(" after")]


def test_a_break_says_what_comes() -> None:
    out = Output()
    out.separate("commentary")
    assert out.take() == [Break("commentary")]
