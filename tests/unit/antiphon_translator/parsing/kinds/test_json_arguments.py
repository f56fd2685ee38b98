from __future__ import annotations

import pytest

from antiphon_translator.parsing.kinds import json_arguments
from antiphon_translator.parsing.kinds.named_call import NamedCall
from tests.support.tool_calls.parsing import call, family_of, parsed

FAMILY = family_of(NamedCall(open=("<c>",), name_end=("<a>",), close=("</c>",)))
LONG = "9" * 5_000


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"a": 1.10}', '{"a": 1.10}'),
        (r'"{\"a\": \"\\u00e9\"}"', r'{"a": "\u00e9"}'),
        (r'"\"{}\""', "{}"),
        (r'"\n{\"a\": 1}\n"', '{"a": 1}'),
        (f'"{{\\"a\\": {LONG}}}"', f'{{"a": {LONG}}}'),
        ("null", "{}"),
        ('"null"', "{}"),
        ('""', "{}"),
        ('"word"', None),
        (r'"{\"a\": tru"', None),
        ("[1]", None),
        ('"[1]"', None),
        ("1", None),
        ("false", None),
        ("[" * 20_000, None),
    ],
)
def test_arguments_are_unwrapped(written: str, arguments: str | None) -> None:
    assert json_arguments.unwrap(written) == arguments


@pytest.mark.parametrize("written", ['"word"', "[1]", "1", '{"a": x', '"{\\"a\\": 1'])
def test_arguments_that_hold_no_object_make_the_call_incomplete_with_their_text(written: str) -> None:
    assert parsed(FAMILY, f"<c>f<a>{written}") == call("f", written, is_complete=False)


@pytest.mark.parametrize(
    ("family", "text", "model_id"),
    [
        ("kimi_k2", "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>%<|tool_call_end|>", "functions.f:0"),
        (
            "deepseek_v3",
            "<\uff5ctool\u2581call\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>f\n```json\n%\n```",
            None,
        ),
        (
            "deepseek_v31",
            "<\uff5ctool\u2581call\u2581begin\uff5c>f<\uff5ctool\u2581sep\uff5c>%<\uff5ctool\u2581call\u2581end\uff5c>",
            None,
        ),
        ("mistral", "[TOOL_CALLS]f[ARGS]%", None),
        ("gpt_oss", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>%<|call|>", None),
        ("mistral", '[TOOL_CALLS][{"name": "f", "arguments": %}]', None),
        ("functionary31", "<function=f>%</function>", None),
        ("apertus", '<|tools_prefix|>[{"f": %}]<|tools_suffix|>', None),
        ("llama3", '{"name": "f", "parameters": %}', None),
        ("granite3", '<|tool_call|>[{"name": "f", "arguments": %}]', None),
    ],
)
def test_arguments_that_are_encoded_twice_are_unwrapped_in_every_family(
    family: str, text: str, model_id: str | None
) -> None:
    twice = r'"{\"a\": 1}"'
    assert parsed(family, text.replace("%", twice)) == call("f", '{"a": 1}', model_id=model_id)
