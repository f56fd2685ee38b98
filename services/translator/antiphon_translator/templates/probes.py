"""Conversations that compare two renderers of a chat template (minijinja_twin.py). They have everything that a template
may be passed, except numbers with a fraction, which the renderers are known to write differently."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon_core.jsons import Object
from antiphon_translator.conversation import Call, Conversation, Image, Message

_IMAGE = Image(b"", "png", 1, 1)
_VALUES: Object = {
    "text": "é\n\"quoted\" 'single' <b>&</b> \\ {{ x }}",
    "int": -3,
    "true": True,
    "none": None,
    "list": [1, "a", [None, False], {"z": 1, "a": {}}],
    "object": {"z": "last", "a": [{"b": "c"}]},
    "empty": "",
}
_SCHEMA: Object = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where.\nIn words.", "enum": ["Rome", "Köln"], "default": "Rome"},
        "days": {"type": ["integer", "null"], "minimum": 1, "default": None},
        "exact": {"type": "boolean", "default": False},
        "points": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
        "either": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/other"}]},
        "bare": {},
    },
    "required": ["city"],
    "$defs": {"other": {"type": "object", "additionalProperties": False}},
}
_FUNCTIONS: tuple[Object, ...] = (
    {"name": "get_weather", "description": "Tells the weather.", "parameters": _SCHEMA, "strict": True},
    {"name": "ns__bare", "parameters": {"type": "object", "properties": {}}},
    {"name": "empty", "description": "", "parameters": {}},
)
TOOLS = tuple({"type": "function", "function": function} for function in _FUNCTIONS)

_ASK, _MORE = Message("user", ("Hi",)), Message("user", ("And now?",))
_SYSTEM, _DEVELOPER = Message("system", ("Be brief.\n",)), Message("developer", ("Be kind.",))
_CALL, _OTHER = Call("call_12345", "get_weather", _VALUES), Call("functions.empty:1", "empty", {})
_ANSWER, _RESULT = Message("assistant", ("Yes.",)), Message("tool", ("Sunny.",), call_id=_CALL.id, name=_CALL.name)
_OTHER_RESULT = Message("tool", ('{"a": [1]}',), call_id=_OTHER.id, name=_OTHER.name)
_THINKING_AND_CALLING = Message("assistant", (), "Hm.", (_CALL,))
_TEXTS = (
    "",
    "  spaces \t\n",
    "a<think>\nHm.\n</think>\n\nb",
    "http://example.com/x?y=1&z=2",
    "naïve ÄÖÜ ǆ ß İ 北京 😀\u2028\u00a0x\r\ny",
    "12",
    "<|im_end|> [INST] {% raw %} {{ 7 * 7 }}",
    "one\ntwo\n\n  three",
)
_CHATS: tuple[tuple[Message, ...], ...] = (
    (_ASK,),
    (_SYSTEM, _ASK),
    (_SYSTEM, _DEVELOPER, _ASK, _ANSWER, _DEVELOPER, _MORE),
    (_ASK, _ANSWER, _MORE, _ANSWER, _MORE),
    (_ANSWER, _ASK),
    (_ASK, _MORE),
    (_ASK, Message("assistant", ("Yes.",), "Hm.\nWell."), _MORE),
    (_ASK, Message("assistant", ("Yes.",), "Hm."), Message("assistant", ("Or no.",), is_commentary=True), _MORE),
    (_ASK, _THINKING_AND_CALLING, _RESULT),
    (_ASK, Message("assistant", ("Let me see.",), "", (_CALL, _OTHER)), _RESULT, _OTHER_RESULT, _ANSWER, _MORE),
    (
        _SYSTEM,
        _ASK,
        Message("assistant", (), "", (_OTHER,)),
        _OTHER_RESULT,
        Message("assistant", (), "Hm.", (_CALL,)),
        _RESULT,
    ),
    (Message("user", ("See:", _IMAGE, "this")), _ANSWER, Message("user", (_IMAGE,))),
    (Message("user", ("one", "two")), Message("assistant", ("three", "four")), _MORE),
)


def conversations() -> Iterator[Conversation]:
    for tools in ((), TOOLS[:1], TOOLS):  # also without tools, because a template that rejects a tool compares nothing
        for chat in _CHATS:
            yield Conversation(chat, tools)
        for text in _TEXTS:
            said = (Message("system", (text,)), Message("user", (text,)), Message("assistant", (text,), text))
            yield Conversation((*said, Message("user", (text,))), tools)
    yield Conversation((_ASK, _ANSWER), continues_last=True)


def long_chat(messages: int) -> Conversation:
    """An ordinary chat of so many messages, to compare the speed of two renderers."""
    texts = (f"{number}. The quick brown fox jumps over the lazy dog." for number in range(messages))
    return Conversation(tuple(Message(("user", "assistant")[n % 2], (text,)) for n, text in enumerate(texts)))
