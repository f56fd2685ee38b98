from __future__ import annotations

import pytest

from antiphon_core.limits import GIVE_BACK_CHARS_MAX
from antiphon_translator.parsing.kinds.python_call import PythonCall
from antiphon_translator.parsing.segments import Dropped, Segment, Text
from tests.support.tool_calls.parsing import call, family_of, parsed

FAMILY = family_of(PythonCall(open=("<c>",), close=("</c>",)))
LINES = family_of(PythonCall(open=("<c>",), close=("</c>",), is_list=False))


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("[f(a=1, b='x)]')]", call("f", '{"a": 1, "b": "x)]"}')),
        (
            "[f(), m.g(x=[True, null, {'a': (1,)}])]",
            [*call("f", "{}"), *call("m.g", '{"x": [true, null, {"a": [1]}]}')],
        ),
        ("[f(x='a\n\tb', n=07, m=-0.50, s='07')]", call("f", r'{"x": "a\n\tb", "n": 7, "m": -0.5, "s": "07"}')),
        (r"[f(x='a\ud83d', y=['\ud83d\ude00'])]", call("f", '{"x": "a\ufffd", "y": ["\U0001f600"]}')),
        (r"[f(x='\d ☃')]", call("f", r'{"x": "\\d ☃"}')),
    ],
)
def test_list_of_python_calls_is_parsed(text: str, segments: list[Segment]) -> None:
    assert parsed(FAMILY, f"<c>{text}</c>") == segments


@pytest.mark.parametrize("text", ["[1]", "f()", "[f(1)]", "[f(x=print())]", "[]", "[f(x=a)]"])
def test_python_code_is_not_evaluated_and_stays_text(text: str) -> None:
    assert parsed(FAMILY, f"<c>{text}</c> so") == [Text(f"<c>{text}</c> so")]
    assert parsed(FAMILY, f"<c>{text}</c>") == [Dropped(f"<c>{text}")]
    long = f"[f(x='{'a' * GIVE_BACK_CHARS_MAX}', y=print())]"
    assert parsed(FAMILY, f"<c>{long}</c> so") == [Dropped(long), Text("so")]


def test_python_calls_in_lines_are_parsed() -> None:
    assert parsed(LINES, "<c>\nf(x=1)\ng()\n</c>") == [*call("f", '{"x": 1}'), *call("g", "{}")]
    assert parsed(LINES, "<c>\nimport os\n</c> so") == [Text("<c>\nimport os\n</c> so")]
