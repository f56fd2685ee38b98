from __future__ import annotations

import pytest

from antiphon_core.limits import GIVE_BACK_CHARS_MAX
from antiphon_translator.parsing.kinds.literal_call import LiteralCall
from antiphon_translator.parsing.segments import Segment, Text
from tests.support.tool_calls.parsing import call, family_of, parsed

FAMILY = family_of(LiteralCall(open=("<c>",)), bare=LiteralCall())
LONG = "a" * GIVE_BACK_CHARS_MAX


@pytest.mark.parametrize("opener", ["<c>", ""])
@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("[{'name': 'f', 'arguments': {'a': True, 'b': [None, 1.5]}}]", call("f", '{"a": true, "b": [null, 1.5]}')),
        ("{'name': 'f', 'arguments': {'a': 'it\\'s [1]'}}", call("f", '{"a": "it\'s [1]"}')),
        ('[ { "name" : "f", "arguments": {"a": true, "b": null}}]', call("f", '{"a": true, "b": null}')),
        ("[{'name': 'f'}, {'name': 'f', 'arguments': '{\"a\": 1}'}]", [*call("f", "{}"), *call("f", '{"a": 1}')]),
        (f"[{{'name': 'f', 'arguments': {{'a': '{LONG}'}}}}]", call("f", f'{{"a": "{LONG}"}}')),
    ],
)
def test_dictionaries_are_calls(opener: str, text: str, segments: list[Segment]) -> None:
    assert parsed(FAMILY, f"{opener}{text}") == segments


@pytest.mark.parametrize("rest", ["}, 1]", ", 'arguments': g()}]", ", 'arguments': {'a': 'x", "}, {'arguments': {}}]"])
def test_list_that_cannot_be_read_is_an_incomplete_call_behind_a_marker_and_otherwise_text(rest: str) -> None:
    assert parsed(FAMILY, f"<c>[{{'name': 'f'{rest}") == call("f", rest, is_complete=False)
    assert parsed(FAMILY, f"[{{'name': 'f'{rest}") == [Text(f"[{{'name': 'f'{rest}")]


@pytest.mark.parametrize("text", ["[1, 2]", "[{'name': 'g'}]", "{'a': 1}", "[{'name': 7}]", "[]", "The [f]"])
def test_other_text_without_a_marker_stays_text(text: str) -> None:
    assert parsed(FAMILY, text) == [Text(text)]


def test_arguments_that_are_no_dictionary_make_the_call_incomplete() -> None:
    assert parsed(FAMILY, "<c>[{'name': 'f', 'arguments': [1]}]") == call("f", "[1]", is_complete=False)
    assert parsed(FAMILY, "<c>[{'name': 'f', 'arguments': {'a': 1e999}}]") == call("f", "{'a': inf}", is_complete=False)
