"""Messages are in an order that strict chat servers accept, whatever the order of the items."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon_core.jsons import Object
from antiphon_translator.conversation import Message
from antiphon_translator.prompt import conversation_items
from antiphon_translator.prompt.conversation_items import path_of
from antiphon_translator.prompt.read_history import NOTHING_READ
from antiphon_translator.prompt.rounds import FURTHER_OUTPUT_NOTE, LATE_OUTPUT_NOTE, PENDING
from tests.support.volume import volume

EXAMPLES = volume(150, 20_000)
_SPOKEN = {"u": "user", "d": "developer", "s": "system", "t": "assistant"}
_CALLS: dict[str, tuple[Object, Object]] = {
    "f": ({"type": "function_call", "name": "f", "arguments": "{}"}, {"type": "function_call_output"}),
    "a": (
        {"type": "function_call", "name": "f", "arguments": "{}", "async": True},
        {"type": "function_call_output"},
    ),
    "c": ({"type": "custom_tool_call", "name": "f", "input": ""}, {"type": "custom_tool_call_output"}),
    "l": (
        {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output"},
    ),
    "p": ({"type": "apply_patch_call", "operation": {}}, {"type": "apply_patch_call_output", "status": "completed"}),
    "q": (
        {"type": "tool_search_call", "execution": "client", "arguments": {}},
        {"type": "tool_search_output", "tools": []},
    ),
}
"""A call item and its output item, by the letter of their kind."""


def items(words: str) -> list[Object]:
    """Items as words. `u1`, `d1`, `s1` and `t1` are messages of the user, the developer, the system and the assistant,
    `r1` is reasoning, `k1` a compaction. `f1` is a call of a function, `a1` an asynchronous one, `c1` of a custom tool,
    `l1` of a shell, `p1` of a patch. `of1` is the output of `f1`, and `of1+` another one. Each word is its text."""
    return [_item(word) for word in words.split()]


def _item(word: str) -> Object:
    letter = word[0]
    if letter in _SPOKEN:
        return {"role": _SPOKEN[letter], "content": word}
    if letter == "r":
        return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": word}]}
    if letter == "k":
        return {"type": "compaction", "summary": [{"type": "summary_text", "text": word}]}
    if letter == "o":
        return {**_CALLS[word[1]][1], "call_id": word[1:].strip("+"), "output": word}
    return {**_CALLS[letter][0], "call_id": word}


def built(before: Sequence[Object], behind: Sequence[Object] = ()) -> tuple[Message, ...]:
    return conversation_items.build(instructions=None, history=before, given=behind)[0].messages


def shown(messages: Sequence[Message]) -> str:
    """Messages as words: `[r1 t1 f1]` is a message of the assistant, `<of1>` a result, `(u1)` any other message."""
    return " ".join(map(_word, messages))


def _word(message: Message) -> str:
    texts = "+".join("..." if part == PENDING else str(part) for part in message.parts)
    if message.role == "assistant":
        reasoning = message.reasoning.replace("\n", " ")
        return f"[{' '.join(filter(None, (reasoning, texts.replace('+', ' '), *(call.id for call in message.calls))))}]"
    return f"<{texts}>" if message.role == "tool" else f"({texts})"


LATE = LATE_OUTPUT_NOTE.format(call_id="a1", name="f")
FURTHER = FURTHER_OUTPUT_NOTE.format(call_id="f1", name="f")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # One round: reasoning, texts and calls up to the first result.
        ("u1 r1 f1 r2 f2 of1 of2", "(u1) [r1 r2 f1 f2] <of1> <of2>"),
        ("u1 r1 t1 f1 of1 r2 t2", "(u1) [r1 t1 f1] <of1> [r2 t2]"),
        ("u1 f1 r1 of1", "(u1) [r1 f1] <of1>"),
        ("u1 f1 t1 of1", "(u1) [t1 f1] <of1>"),
        ("u1 t1 f1 t2 f2 of1 of2", "(u1) [t1 t2 f1 f2] <of1> <of2>"),
        ("u1 c1 r1 l1 t1 p1 op1 ol1 oc1", "(u1) [r1 t1 c1 l1 p1] <oc1> <ol1> <op1>"),
        # Rounds end at a result.
        ("u1 f1 of1 f2 of2", "(u1) [f1] <of1> [f2] <of2>"),
        ("u1 f1 of1 r1 f2 of2 t1", "(u1) [f1] <of1> [r1 f2] <of2> [t1]"),
        ("u1 f1 f2 of1 f3 of2 of3", "(u1) [f1 f2] <of1> <of2> [f3] <of3>"),
        ("u1 f1 f2 of2 t1 of1", "(u1) [f1 f2] <of1> <of2> [t1]"),
        # Messages without calls stay apart.
        ("r1 t1 r2 t2", "[r1 t1] [r2 t2]"),
        ("t1 t2 f1 of1", "[t1] [t2 f1] <of1>"),
        ("r1 r2 t1 t2", "[r1 r2 t1] [t2]"),
        # Other speakers between a call and its result.
        ("u1 f1 u2 of1", "(u1) [f1] <of1> (u2)"),
        ("u1 f1 d1 of1", "(u1) [f1] <of1> (d1)"),
        ("u1 f1 s1 t1 of1", "(u1) [f1] <of1> (s1) [t1]"),
        ("u1 f1 f2 of1 u2 of2", "(u1) [f1 f2] <of1> <of2> (u2)"),
        ("u1 f1 u2 f2 of2 of1", "(u1) [f1] <of1> (u2) [f2] <of2>"),
        ("u1 f1 u2 f2 u3 of2 of1 t1", "(u1) [f1] <of1> (u2) [f2] <of2> (u3) [t1]"),
        # The order of the results is that of the calls.
        ("f1 f2 f3 of3 of1 of2", "[f1 f2 f3] <of1> <of2> <of3>"),
        # Several outputs of one call.
        ("f1 f2 of1 of1+ of2", "[f1 f2] <of1+of1+> <of2>"),
        ("f1 of1 t1 of1+ t2", f"[f1] <of1> [t1] ({FURTHER}+of1+) [t2]"),
        # One id for two calls, of one round or of two.
        ("f1 f1 of1 of1+", "[f1 f1] <of1> <of1+>"),
        ("f1 f1 of1 u1", "[f1 f1] <of1> (u1)"),
        ("f1 f1 u1 of1", "[f1 f1] <of1> (u1)"),
        ("f1 of1 f1 of1+", "[f1] <of1> [f1] <of1+>"),
        ("f1 u1 f1 of1 of1+", "[f1] <of1> (u1) [f1] <of1+>"),
        # Asynchronous calls.
        ("u1 a1 oa1 t1", "(u1) [a1] <oa1> [t1]"),
        ("u1 a1 t1 oa1 oa1+", f"(u1) [a1] <...> [t1] ({LATE}+oa1) ({LATE}+oa1+)"),
        ("u1 a1 f1 t1 of1 u2 oa1", f"(u1) [t1 a1 f1] <...> <of1> (u2) ({LATE}+oa1)"),
        ("u1 a1 u2 f1 oa1 of1", f"(u1) [a1] <...> (u2) [f1] <of1> ({LATE}+oa1)"),
    ],
)
def test_items_become_messages_in_rounds(given: str, expected: str) -> None:
    assert shown(built(items(given))) == expected


def require_strict(messages: Sequence[Message]) -> None:
    """Raises AssertionError where a strict chat server rejects the messages: results are in an unbroken run behind the
    message with their calls, once for each of its calls."""
    due: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert message.call_id in due
            due.remove(message.call_id)
        else:
            assert due == []
            due = [call.id for call in message.calls]
    assert due == []


@st.composite
def conversations(draw: st.DrawFn) -> str:
    """Words for `items` in any order that is accepted: outputs come behind their calls, each call that is not
    asynchronous has one, and some have several."""
    kinds = draw(st.lists(st.sampled_from("udstrk" + "ffacplo"), min_size=1, max_size=24))
    words: list[str] = []
    calls: list[str] = []
    unanswered: list[str] = []
    for number, kind in enumerate(kinds):
        if kind == "o" and calls:
            call = draw(st.sampled_from(calls))
            words.append(f"o{call}" + "+" * sum(word.startswith(f"o{call}") for word in words))
            unanswered = [each for each in unanswered if each != call]
        elif kind != "o":
            words.append(f"{kind}{number}")
        if kind in _CALLS:
            calls.append(words[-1])
            unanswered += [words[-1]] if kind != "a" else []
    return " ".join([*words, *(f"o{call}" for call in draw(st.permutations(unanswered)))] or ["u"])


def text_of(messages: Sequence[Message]) -> list[str]:
    return [
        str(text) for message in messages for text in (*message.parts, *message.reasoning.split()) if text != PENDING
    ]


@settings(max_examples=EXAMPLES)
@given(conversations())
def test_a_strict_server_accepts_the_messages_of_any_items(words: str) -> None:
    messages = built(items(words))
    require_strict(messages)
    assert [call.id for message in messages for call in message.calls] == [
        word for word in words.split() if word[0] in _CALLS
    ]
    told = [word for word in words.split() if word[0] not in _CALLS and word[:2] != "op"]
    everything = " ".join(text_of(messages)).split()
    assert sorted(word for word in everything if word in told) == sorted(told)


@settings(max_examples=EXAMPLES)
@given(conversations(), st.integers(0, 24))
def test_a_known_history_is_continued_as_if_it_was_read_anew(words: str, size: int) -> None:
    begun = words.split()[:size]
    due = [word for word in begun if word[0] in _CALLS and word[0] != "a" and f"o{word}" not in begun]
    given_then = items(" ".join([*(f"o{word}" for word in due), "u"]))
    known = conversation_items.build(instructions=None, history=items(" ".join(begun)), given=given_then)[1]
    rest = items(words)[known.items :]
    assert conversation_items.build(instructions=None, history=rest, given=(), known=known)[0].messages == built(
        items(words)
    )


@settings(max_examples=EXAMPLES)
@given(conversations(), st.integers(1, 24))
def test_what_a_model_has_read_does_not_change(words: str, size: int) -> None:
    """A turn whose prompt ends with a message or an output, and the next turn, which has the model's answer."""
    begun = [word for word in words.split() if word[0] != "r"][:size]
    calls = [word for word in begun if word[0] in _CALLS and word[0] != "a"]
    begun += [f"o{call}" for call in calls if f"o{call}" not in begun] or ["u"]
    rest = [word for word in words.split()[size:] if word not in begun and word[0] != "o"]
    ends = [f"o{word}" for word in rest if word[0] in _CALLS]
    read = built(items(" ".join(begun)))
    assert built(items(" ".join([*begun, "t", *rest, *ends])))[: len(read)] == read


def test_each_message_has_the_path_of_its_first_item() -> None:
    history, given = items("u1 r1 f1 t1 u2"), items("of1 a1 u3")
    paths = [path_of(place, instructions=None, history=history, given=given) for place in range(7)]
    # (u1) [r1 t1 f1] <of1> (u2) [a1] <...> (u3)
    assert paths == ["history[0]", "history[1]", "input[0]", "history[4]", "input[1]", "input[1]", "input[2]"]


def test_history_with_the_place_of_a_result_is_not_known() -> None:
    whole = items("u1 f1 u2 of1")
    assert conversation_items.build(instructions=None, history=whole[:3], given=whole[3:])[1] is NOTHING_READ
    assert conversation_items.build(instructions=None, history=whole[:2], given=whole[3:])[1].items == 2
