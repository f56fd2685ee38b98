from __future__ import annotations

import pytest

from antiphon_translator.parsing.kinds.gemma_call import GemmaCall
from antiphon_translator.parsing.segments import Segment, Text
from tests.support.tool_calls.parsing import call, family_of, parsed

FAMILY = family_of(GemmaCall(open=("<c>",), close=("</c>",), quote="|"))
TYPES = {"s": "string", "n": "integer", "l": "array"}
SCHEMAS = {"f": {"properties": {name: {"type": kind} for name, kind in TYPES.items()}}, "g": {}}


def read(arguments: str) -> list[Segment]:
    """Parses a call with these arguments, and requires that the text and the call behind it are not lost."""
    *segments, text, begin, empty, end = parsed(
        FAMILY, f"<c>call:f{{{arguments}}}</c>Hi<c>call:g{{}}</c>", schemas=SCHEMAS
    )
    assert [text, begin, empty, end] == [Text("Hi"), *call("g", "{}")]
    return segments


@pytest.mark.parametrize(
    ("arguments", "json"),
    [
        (r'a: "He said, {yes}: \"fine\"\n"', r'{"a": "He said, {yes}: \"fine\"\n"}'),
        ("a:'it\\'s',b:'say \"hi\"'", '{"a": "it\'s", "b": "say \\"hi\\""}'),
        ('a:"\\ud83d\\ude00 \\ud83d x"', '{"a": "\U0001f600 \ufffd x"}'),
        ("a:\"two\nlines\",b:'two\nlines'", r'{"a": "two\nlines", "b": "two\nlines"}'),
        ('a:"don\\\'t"', '{"a": "don\'t"}'),
        ('l:["a","b,]c",|d|,e]', '{"l": ["a", "b,]c", "d", "e"]}'),
        ('o:{"mode": "fast", \'x\': [{"y": 1.50}]}', '{"o": {"mode": "fast", "x": [{"y": 1.50}]}}'),
        ("a=|x|,b = 1,\n|c d|=null,e f:2,", '{"a": "x", "b": 1, "c d": null, "e f": 2}'),
        ("a:True,b:False,c:None,d:true\n", '{"a": true, "b": false, "c": null, "d": true}'),
        ("s:12345,n:12345,a:12345", '{"s": "12345", "n": 12345, "a": 12345}'),
        ("s:null,a:San Francisco,b:http://a.b/c?d=1", '{"s": null, "a": "San Francisco", "b": "http://a.b/c?d=1"}'),
        ("s:NaN", '{"s": "NaN"}'),
    ],
)
def test_value_is_converted_to_json(arguments: str, json: str) -> None:
    assert read(arguments) == call("f", json)


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ("a:'it's fine',b:1", "{\"a\": 'it's fine',b:1}"),
        ('a:"say "hi" now",b:1', '{"a": "say "hi" now",b:1}'),
        ('a:"no end,b:1', '{"a": "no end,b:1}'),
        (r'a:"\x"', r'{"a": "\x"}'),
        ("a:one b:2", '{"a": one b:2}'),
        ("a:,b:2", '{"a": ,b:2}'),
        ("a:|x| b,c:1", '{"a": "x"b,c:1}'),
        ("a:|x|,b,c:1", '{"a": "x", b,c:1}'),
        ("a:f(x)", '{"a": f(x)}'),
        ("a:one\ntwo", '{"a": one\ntwo}'),
        ("n:NaN", '{"n": NaN}'),
        ("n:-Infinity", '{"n": -Infinity}'),
        ("l:[1}", '{"l": [1}}'),
        ('"a"|x|', '{"a"|x|}'),
        ("|a|,b:1", "{|a|,b:1}"),
        ("{a:1},b:2", '{"a": 1},b:2}'),
    ],
)
def test_value_that_is_not_understood_makes_the_call_incomplete_with_its_text(arguments: str, written: str) -> None:
    assert read(arguments) == call("f", written, is_complete=False)


def test_string_that_no_quote_ends_does_not_swallow_the_next_call() -> None:
    for quote in "\"'":
        broken = parsed(FAMILY, f"<c>call:f{{a:{quote}x}}<c>call:g{{}}</c>", schemas=SCHEMAS)
        assert broken == [*call("f", f'{{"a": {quote}x}}', is_complete=False), *call("g", "{}")]
