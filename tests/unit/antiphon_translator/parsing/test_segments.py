from __future__ import annotations

import pytest

from antiphon_translator.parsing.segments import Arguments, Break, CallBegin, CallEnd, Output, Reasoning, Text, Unread


def test_white_space_between_segments_is_left_out() -> None:
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


def test_white_space_of_a_plain_answer_is_kept() -> None:
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
def test_call_is_complete_only_if_its_arguments_are_an_object(arguments: str, is_complete: bool) -> None:
    out = Output()
    out.begin_call("f")
    out.arguments(arguments)
    assert out.has_arguments is bool(arguments)
    out.end_call()
    assert out.take()[-1] == CallEnd(is_complete)


def test_call_without_an_end_is_incomplete() -> None:
    for follow in (lambda out: out.text("a"), lambda out: out.reasoning("a"), Output.separate, Output.finish):
        out = Output()
        out.begin_call("f")
        out.arguments("{}")
        follow(out)
        assert out.take()[:4] == [CallBegin("f"), Arguments("{}"), Unread("call", 2), CallEnd(False)]


def test_unread_note_does_not_end_a_text() -> None:
    out = Output()
    out.text("before ")
    out.unread("noise", 3)
    out.text("after")
    assert out.take() == [Text("before"), Unread("noise", 3), Text(" after")]


def test_rest_of_an_output_that_was_cut_off_is_not_unread() -> None:
    out = Output()
    out.begin_call("f")
    out.is_cut_off = True
    out.finish()
    assert out.take() == [CallBegin("f"), CallEnd(False)]


def test_break_has_the_phase_of_the_next_segment() -> None:
    out = Output()
    out.separate("commentary")
    assert out.take() == [Break("commentary")]


def test_white_space_behind_an_empty_thought_is_left_out() -> None:
    out = Output()
    out.end_reasoning()
    out.text("\n\nanswer")
    assert out.take() == [Text("answer")]


def test_output_ends_at_a_stop_in_a_text() -> None:
    out = Output(stops=("END", "x"))
    out.reasoning("x END")
    out.begin_call("f")
    out.arguments('{"x": 1}')
    out.end_call()
    for part in (" one E", "N", "D two", " three"):
        assert not out.is_stopped or part == " three"
        out.text(part)
    out.begin_call("g")
    out.finish()
    assert (out.is_stopped, out.take()[-2:]) == (True, [Text("one"), Text(" ")])


def test_beginning_of_a_stop_is_a_part_of_the_text_when_something_else_follows() -> None:
    out = Output(stops=("END",))
    out.text("one EN ")
    out.text("E")
    out.begin_call("f")
    out.text("ND")
    assert [each.text for each in out.take() if isinstance(each, Text)] == ["one EN", " E", "ND"]


def test_run_of_an_output_is_the_text_that_comes_out_as_it_is() -> None:
    out = Output()
    assert (out.run_of(out.text), out.run_of(out.reasoning)) == (None, None)
    out.reasoning("a")
    assert (out.run_of(out.text), out.run_of(out.reasoning)) == (None, Reasoning)
    out.text("\n")
    assert out.run_of(out.text) is None
    out.text("b")
    assert (out.run_of(out.text), out.run_of(out.reasoning), out.run_of(print)) == (Text, None, None)
    out.begin_call("f")
    assert out.run_of(out.text) is None


def test_run_that_is_searched_for_stops_gets_its_text_also_while_text_is_held_back() -> None:
    out = Output(["end"])
    out.text("a \nen")
    assert (out.run_of(out.text), out.may_stop_in("d"), out.may_stop_in("t")) == (Text, True, False)
    out.add_to_run("t")
    assert "".join(each.text for each in out.take() if isinstance(each, Text)) == "a \nent"
    out.reasoning("b")
    out.add_to_run("c")
    assert (out.take(), out.may_stop_in("end")) == ([Reasoning("b"), Reasoning("c")], False)
