from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon_translator.parsing.alphabet import Alphabet
from antiphon_translator.parsing.kinds.tagged_call import TaggedCall
from antiphon_translator.parsing.segments import Segment, Text
from tests.support.tool_calls.parsing import call, family_of, parsed

SYNTAX = TaggedCall(
    open=("<c ",),
    name_end=(">",),
    empty_end=("/>",),
    key_open=("<k ",),
    key_close=(">",),
    value_close=("</k>",),
    after_value=("<k ", "</c>"),
    close=("</c>",),
)
SCHEMAS: dict[str, Any] = {"f": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}}}


def read(text: str, **changes: Any) -> list[Segment]:
    return parsed(family_of(replace(SYNTAX, **changes)), text, schemas=SCHEMAS)


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("<c f></c>", call("f", "{}")),
        ("<c f/>", call("f", "{}")),
        ('<c "f"><k s>3</k><k n>3</k></c>', call("f", '{"s": "3", "n": 3}')),
        ("<c f>\n<k s> a\n</k>\n</c>", call("f", '{"s": " a\\n"}')),
        ("<c f><k s>a</k>b</k></c>", call("f", '{"s": "a</k>b"}')),
        ("<c f><k new>[1]</k></c>", call("f", '{"new": [1]}')),
        ("<c f><k s>a", call("f", '{"s": "a', is_complete=False)),
        ("<c two words></c>", [Text("<c two words></c>")]),
    ],
)
def test_calls(text: str, segments: list[Segment]) -> None:
    assert read(text) == segments


def test_one_newline_on_either_side_may_be_markup() -> None:
    assert read("<c f><k s>\n\na\n\n</k></c>", trims_newlines=True) == call("f", '{"s": "\\na\\n"}')


def test_a_forgotten_closer_is_found_by_the_next_parameter_of_the_tool() -> None:
    assert read("<c f><k s>a\n<k n>3</k></c>", forgets_closers=True) == call("f", '{"s": "a", "n": 3}')
    assert read("<c f><k s>a\n<k x>3</k></c>", forgets_closers=True) == call("f", '{"s": "a\\n<k x>3"}')


def test_the_model_may_say_what_a_value_is() -> None:
    pattern = r"(?P<key>\w+)(?: string=(?P<string>\w+))?"
    text = "<c f><k s string=false>1</k><k n string=true>2</k></c>"
    assert read(text, key_pattern=pattern) == call("f", '{"s": "1", "n": "2"}')


def test_the_closer_may_hold_the_key() -> None:
    assert read("<c f><s>a</n></s></c>", key_open=("<",), value_close=("</{key}>",), after_value=()) == call(
        "f", '{"s": "a</n>"}'
    )


def test_some_closers_count_only_as_tokens() -> None:
    family = family_of(replace(SYNTAX, closing_tokens=("</c>",)))
    assert parsed(family, "<c f><k s>a</c></k></c>", schemas=SCHEMAS) == call("f", '{"s": "a</c>"}')
    alphabet = Alphabet({1: "</c>"}, family.markers())
    text = alphabet.encode("<c f><k s>a</c>")
    assert parsed(family.translated(alphabet.encode), text, schemas=SCHEMAS) == call("f", '{"s": "a"}')
