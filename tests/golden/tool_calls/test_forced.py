"""Forced calls, which the prompt begins, are read like other calls in every family that has them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from antiphon_translator.parsing import families
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.kinds.gemma_call import GemmaCall
from antiphon_translator.parsing.kinds.json_call import JsonCall
from antiphon_translator.parsing.kinds.named_call import NamedCall
from antiphon_translator.parsing.kinds.tagged_call import TaggedCall
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Segment
from antiphon_translator.prompt.tools import Tool, ToolSet
from antiphon_translator.turn import forced_calls

SCHEMAS = {"f": {"type": "object", "properties": {"a": {"type": "integer"}}}}
FORCED = [name for name in families.names() if families.load(name).forced]


def arguments(family: Family) -> str:
    """The output of a model from the beginning of a forced call to the end of the call."""
    tagged = [call for call in family.calls if isinstance(call, TaggedCall)]
    calls: Sequence[object] = tagged if tagged and not family.forced_json else family.calls
    first: object = calls[0] if calls else None
    match first:
        case JsonCall(close=close):
            return '{"a": 1}}' + "".join(close[:1])
        case NamedCall(close=close):
            return '{"a": 1}' + "".join(close[:1])
        case GemmaCall(close=close):
            return "a:1}" + close[0]
        case TaggedCall() as call:
            key = f"{call.key_open[0]}a{call.key_close[0]}"
            value = f"{''.join(call.value_open[:1])}1{call.value_close[0].replace('{key}', 'a')}"
            return f"{key}{value}{call.close[0]}"
        case _:
            return '{"a": 1}<|call|>'


def read(family: Family, *said: str, prompt_tail: str = "") -> list[Segment]:
    parser = OutputParser(family, schemas=SCHEMAS, prompt_tail=prompt_tail)
    segments = [segment for text in said for segment in parser.feed(text)]
    return [*segments, *parser.finish()]


@pytest.mark.parametrize("name", FORCED)
def test_forced_call_is_read_as_one_complete_call(name: str) -> None:
    family = families.load(name)
    segments = read(family, family.beginning_of_call("f", ""), arguments(family))
    written = "".join(segment.text for segment in segments if isinstance(segment, Arguments))
    assert [segment.name for segment in segments if isinstance(segment, CallBegin)] == ["f"]
    assert json.loads(written) == {"a": 1}
    assert CallEnd(True) in segments


@pytest.mark.parametrize("name", FORCED)
def test_beginning_of_any_forced_call_is_a_prefix_of_that_of_one_tool(name: str) -> None:
    family = families.load(name)
    assert family.forced.startswith(family.forced_any) or name == "kimi_k2"
    assert family.forced_any


@pytest.mark.parametrize("name", [name for name in FORCED if families.load(name).reasoning])
def test_forced_call_closes_reasoning_that_the_prompt_opened(name: str) -> None:
    family = families.load(name)
    opener, closer = family.reasoning[0]
    begun = family.beginning_of_call("f", opener)
    assert begun.startswith(f"\n{closer}")
    segments = read(family, begun, arguments(family), prompt_tail=opener)
    assert [segment.name for segment in segments if isinstance(segment, CallBegin)] == ["f"]


def test_common_families_have_forced_calls() -> None:
    assert {"hermes", "qwen_coder", "glm", "gpt_oss", "kimi_k2", "mistral", "deepseek_v31", "gemma4"} <= set(FORCED)


@pytest.mark.parametrize("name", [name for name in FORCED if families.load(name).forced_json])
def test_guided_arguments_and_the_rest_make_a_complete_call(name: str) -> None:
    tool = Tool("f", "f", parameters=SCHEMAS["f"])
    forced = forced_calls.of(families.load(name), ToolSet((tool,), (tool,), requires_call=True), "", guides=True)
    segments = read(families.load(name), forced.beginning, '{"a": 1}', forced.rest)
    assert segments[-1] == CallEnd(True)
    assert forced.guide is not None
