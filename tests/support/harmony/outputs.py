"""Outputs of gpt-oss after the prompt's `<|start|>assistant`, and their meaning as a list of parts.

openai-harmony defines the meaning of well-formed outputs. For outputs that openai-harmony refuses or reads in an
unusable way, the meaning is written down here, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from antiphon_core.jsons import Object
from antiphon_translator.parsing.segments import (
    Arguments,
    Break,
    CallBegin,
    CallEnd,
    Reasoning,
    Segment,
    Text,
    Unread,
)
from tests.support.harmony.conversations import Said

SCHEMAS: dict[str, Object] = {"get_weather": {}, "get_time": {}, "write-file.v2": {}}
PROMPT = "<|start|>assistant"

_THOUGHT = "<|channel|>analysis<|message|>Need the weather.<|end|><|start|>assistant"
_NEXT = "<|start|>assistant"
_JSON = '<|constrain|>json<|message|>{"location":"Paris"}'
_CALL = f"<|channel|>commentary to=functions.get_weather {_JSON}"


@dataclass(frozen=True)
class Part:
    """A part of an output. `kind` is reasoning, commentary, text, call, or call cut off."""

    kind: str
    text: str
    name: str = ""


@dataclass(frozen=True)
class Output:
    """An output. `means` is its meaning if openai-harmony cannot be used, for the reason in `why`."""

    id: str
    text: str
    why: str = ""
    means: tuple[Part, ...] = ()


def reasoning(text: str) -> Part:
    return Part("reasoning", text)


def said(text: str) -> Part:
    return Part("text", text)


def preamble(text: str) -> Part:
    return Part("commentary", text)


def call(name: str, arguments: str) -> Part:
    return Part("call", arguments, name)


def cut_call(name: str, arguments: str) -> Part:
    return Part("call cut off", arguments, name)


WEATHER = call("get_weather", '{"location":"Paris"}')
THOUGHT = reasoning("Need the weather.")

WELL_FORMED = (
    Output("answer", "<|channel|>final<|message|>Hello!<|return|>"),
    Output("answer-without-its-end", "<|channel|>final<|message|>Hello!"),
    Output("thought-alone", "<|channel|>analysis<|message|>Hm, let me see.<|end|>"),
    Output("thought-and-answer", f"{_THOUGHT}<|channel|>final<|message|>It is sunny.\n\nAnd warm.<|return|>"),
    Output(
        "two-thoughts", f"{_THOUGHT}<|channel|>analysis<|message|>Or not.<|end|>{_NEXT}<|channel|>final<|message|>4"
    ),
    Output("call", f"{_THOUGHT}{_CALL}<|call|>"),
    Output("call-without-its-end", f"{_THOUGHT}{_CALL}"),
    Output("call-that-ends-as-a-message", f"{_CALL}<|end|>"),
    Output("recipient-in-the-role", f" to=functions.get_weather<|channel|>commentary {_JSON}<|call|>"),
    Output("recipient-in-the-next-role", f"{_THOUGHT} to=functions.get_weather<|channel|>commentary {_JSON}<|call|>"),
    Output("constraint-without-a-blank", f"<|channel|>commentary to=functions.get_weather{_JSON}<|call|>"),
    Output("constraint-without-its-token", f"{_CALL.replace('<|constrain|>', '')}<|call|>"),
    Output("no-constraint", '<|channel|>commentary to=functions.get_weather<|message|>{"location": "Rom"}<|call|>'),
    Output("another-constraint", '<|channel|>commentary to=functions.get_weather <|constrain|>code<|message|>{"a": 1}'),
    Output("call-on-the-analysis-channel", f"<|channel|>analysis to=functions.get_weather {_JSON}<|call|>"),
    Output("call-on-the-final-channel", f"<|channel|>final to=functions.get_weather {_JSON}<|call|>"),
    Output("call-without-a-channel", f" to=functions.get_weather {_JSON}<|call|>"),
    Output("no-arguments", "<|channel|>commentary to=functions.get_time <|constrain|>json<|message|>{}<|call|>"),
    Output(
        "name-with-signs", "<|channel|>commentary to=functions.write-file.v2 <|constrain|>json<|message|>{}<|call|>"
    ),
    Output(
        "name-that-nobody-offered", "<|channel|>commentary to=functions.nobody <|constrain|>json<|message|>{}<|call|>"
    ),
    Output("preamble-and-call", f"{_THOUGHT}<|channel|>commentary<|message|>Let me look.<|end|>{_NEXT}{_CALL}<|call|>"),
    Output("preamble-alone", "<|channel|>commentary<|message|>**Plan**:\n1. Look\n2. Tell<|end|>"),
    Output("call-and-answer", f"{_CALL}<|call|>{_NEXT}<|channel|>final<|message|>Done.<|return|>"),
    Output(
        "calls-side-by-side",
        f"{_THOUGHT}{_CALL}<|call|>{_NEXT}<|channel|>commentary to=functions.get_time <|constrain|>json<|message|>"
        "{}<|call|>",
    ),
    Output(
        "calls-with-either-header",
        f" to=functions.get_time<|channel|>commentary <|constrain|>json<|message|>{{}}<|call|>{_NEXT}{_CALL}<|call|>",
    ),
    Output(
        "escapes-and-scripts",
        "<|channel|>commentary to=functions.write-file.v2 <|constrain|>json<|message|>"
        '{"path": "C:\\\\me", "content": "a\\n\\t\\"b\\" naïve 日本語 👩‍👩‍👧", "n": 1e20, "o": {"p": [true]}}<|call|>',
    ),
    Output("scripts", "<|channel|>final<|message|>naïve 日本語で 😀👩‍👩‍👧 ⅷ ﷽\r\n\ttabs<|return|>"),
    Output("unknown-channel", "<|channel|>comment<|message|>some text<|end|>"),
    Output("no-channel", "<|message|>Hello<|end|>"),
    Output("to-the-assistant", "<|channel|>final to=assistant<|message|>Hello<|end|>"),
    Output("answer-like-a-call", '<|channel|>final<|message|>{"name": "get_weather", "arguments": {}}<|return|>'),
)

MALFORMED = (
    Output("nothing", "", "a header that never ends is an error there", ()),
    Output(
        "no-header",
        "Hello, I forgot my header.",
        "text without a header never surfaces",
        (said("Hello, I forgot my header."),),
    ),
    Output("header-alone", "<|channel|>final", "a header that never ends is an error there", ()),
    Output(
        "half-a-header", "<|channel|>commentary to=functions.get_wea", "a header that never ends is an error there", ()
    ),
    Output(
        "constraint-alone",
        f"{_THOUGHT}<|channel|>commentary to=functions.get_weather <|constrain|>json",
        "a header that never ends is an error there",
        (
            THOUGHT,
            cut_call("get_weather", "assistant<|channel|>commentary to=functions.get_weather <|constrain|>json"),
        ),
    ),
    Output(
        "answer-in-the-header",
        f"{_THOUGHT}<|channel|>final Hello",
        "a header that never ends is an error there",
        (THOUGHT, said("Hello")),
    ),
    Output(
        "stray-text-between",
        f"<|channel|>analysis<|message|>a<|end|>stray{_NEXT}<|channel|>final<|message|>b",
        "only a start is allowed behind an end",
        (reasoning("a"), said("stray"), said("b")),
    ),
    Output(
        "stray-text-behind",
        "<|channel|>final<|message|>b<|end|>\n",
        "only a start is allowed behind an end",
        (said("b"),),
    ),
    Output(
        "header-without-a-start",
        "<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b",
        "only a start is allowed behind an end",
        (reasoning("a"), said("b")),
    ),
    Output(
        "channel-twice",
        f"<|channel|>commentary<|channel|>commentary to=functions.get_weather {_JSON}<|call|>",
        "the recipient becomes part of a channel",
        (WEATHER,),
    ),
    Output(
        "another-channel-behind",
        "<|channel|>commentary to=assistant<|channel|>analysis<|message|>Hm",
        "the second channel becomes a recipient",
        (reasoning("Hm"),),
    ),
    Output(
        "start-in-a-header",
        f"<|channel|>??<|end|>{_NEXT}<|channel|>analysis<|message|>Hm",
        "the header is taken for one",
        (said("??"), reasoning("Hm")),
    ),
    Output(
        "text-in-a-header",
        f"<|channel|>commentary?commentary?We need it.<|end|>{_NEXT}<|channel|>analysis<|message|>Hm",
        "the header is taken for one",
        (said("commentary?commentary?We need it."), reasoning("Hm")),
    ),
    Output(
        "too-many-words-in-a-header",
        f"<|channel|>commentary to=functions.get_weather now please {_JSON}<|call|>",
        "words are left over in the header",
        (WEATHER,),
    ),
    Output("channel-without-a-name", "<|channel|><|message|>Hello", "a channel has to have a name", (said("Hello"),)),
    Output(
        "start-in-a-message",
        f"<|channel|>analysis<|message|>a{_NEXT}<|channel|>final<|message|>b",
        "a start within a message is text there",
        (reasoning("a"), said("b")),
    ),
    Output(
        "cut-off-in-arguments",
        f"{_THOUGHT}{_CALL[:-5]}",
        "whether arguments are whole nobody looks at there",
        (THOUGHT, cut_call("get_weather", '{"location":"Pa')),
    ),
    Output(
        "arguments-that-are-none",
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>Paris, please<|call|>",
        "whether arguments are JSON nobody looks at there",
        (cut_call("get_weather", "Paris, please"),),
    ),
    Output(
        "arguments-of-nothing",
        "<|channel|>commentary to=functions.get_time <|constrain|>json<|message|><|call|>",
        "arguments of nothing are none",
        (call("get_time", "{}"),),
    ),
    Output(
        "bare-recipient",
        f"<|channel|>commentary to=get_weather {_JSON}<|call|>",
        "the namespace may be forgotten",
        (WEATHER,),
    ),
    Output(
        "builtin-python",
        "<|channel|>commentary to=python <|constrain|>code<|message|>print(1)<|call|>",
        "nobody offered that tool: it is shown, as reasoning",
        (reasoning("print(1)"),),
    ),
    Output(
        "role-and-no-recipient",
        "final<|message|>Hello",
        "a word in the role's place becomes a recipient there",
        (said("Hello"),),
    ),
)


def parts_of(segments: Iterable[Segment]) -> list[Part]:
    """Returns the parts that our parser found, message by message. Outer white space and empty messages are dropped."""
    parts: list[Part] = []
    phase: str | None = None
    is_new = True
    for segment in segments:
        match segment:
            case Break(phase):
                is_new = True
            case Text(text):
                _add(parts, "commentary" if phase == "commentary" else "text", text, is_new=is_new)
            case Reasoning(text):
                _add(parts, "reasoning", text, is_new=is_new)
            case CallBegin(name):
                parts.append(Part("call", "", name))
            case Arguments(text):
                parts[-1] = Part("call", parts[-1].text + text, parts[-1].name)
            case CallEnd(is_complete):
                parts[-1] = parts[-1] if is_complete else cut_call(parts[-1].name, parts[-1].text)
            case Unread():
                continue
        is_new = isinstance(segment, Break | CallEnd)
    return _stripped(parts)


def parts_meant(messages: Sequence[Said]) -> list[Part]:
    """Returns the parts of messages that openai-harmony found. Outer white space and empty messages are dropped."""
    return _stripped([_part(each) for each in messages])


def _part(each: Said) -> Part:
    if each.recipient is not None and each.recipient != "assistant":
        return _called(each.recipient.removeprefix("functions."), each.text)
    kinds = {"analysis": "reasoning", "commentary": "commentary"}
    return Part(kinds.get(each.channel or "", "text"), each.text)


def _called(name: str, arguments: str) -> Part:
    try:
        is_whole = isinstance(json.loads(arguments), dict)
    except ValueError:
        is_whole = False
    return call(name, arguments) if is_whole else cut_call(name, arguments)


def _add(parts: list[Part], kind: str, text: str, *, is_new: bool) -> None:
    if is_new or not parts or parts[-1].kind != kind:
        parts.append(Part(kind, text))
    else:
        parts[-1] = Part(kind, parts[-1].text + text)


def _stripped(parts: list[Part]) -> list[Part]:
    stripped = (Part(each.kind, each.text.strip(), each.name) for each in parts)
    return [each for each in stripped if each.text or each.kind.startswith("call")]
