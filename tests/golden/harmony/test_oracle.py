"""Comparison with openai-harmony while the tests run: the recording is up to date, and random prompts and outputs
agree. The tests need the packages that `make check` installs, and no network."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon_core.jsons import Object
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.templates.harmony import HarmonyTemplate
from tests.support.harmony import oracle, ours
from tests.support.harmony.conversations import (
    CASES,
    NOW_S,
    Case,
    Said,
    analysis,
    answered,
    call,
    called,
    commentary,
    final,
    function,
    message,
    reasoning,
    result,
    turn,
    user,
)
from tests.support.harmony.outputs import WELL_FORMED, Output, Part, parts_meant
from tests.support.harmony.recording import FILE, asked
from tests.support.volume import volume


@pytest.fixture(scope="module", autouse=True)
def _oracle_is_there() -> None:
    assert not oracle.missing()


def test_recording_equals_the_answers_of_openai_harmony() -> None:
    assert json.loads(FILE.read_text("utf-8")) == asked()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_prompt_has_the_ids_of_openai_harmony(case: Case) -> None:
    encoder = PromptEncoder(HarmonyTemplate(), oracle.vocabulary().tokenizer)
    prompt = encoder.encode(ours.conversation(case), now_s=NOW_S, switches={"reasoning_effort": case.effort})
    ids = [token_id for piece in prompt.pieces for token_id in oracle.ids_of(piece)]
    assert ids == oracle.prompt_ids(case)


@pytest.mark.parametrize("output", WELL_FORMED, ids=lambda output: output.id)
def test_output_cut_off_anywhere_is_read_as_by_openai_harmony(output: Output) -> None:
    ids = oracle.ids_of(output.text)
    for length in range(len(ids) + 1):
        messages = oracle.messages_of(ids[:length])
        if not isinstance(messages, str):  # openai-harmony raises an error within a header
            assert parts(ids[:length]) == without_half_a_character(parts_meant(messages))


def parts(ids: list[int]) -> list[Part]:
    known = oracle.vocabulary()
    return ours.parts(known, [[known.number[each] for each in ids]], cut_off=True)


def without_half_a_character(meant: list[Part]) -> list[Part]:
    """Leaves out a character that was cut off, as our parser does."""
    if meant and meant[-1].text.endswith("\ufffd"):
        *others, last = meant
        return [*others, Part(last.kind, last.text.rstrip("\ufffd").rstrip(), last.name)]
    return meant


# ---- Random input ----

TEXTS = st.text(st.sampled_from("ab Z09 \n.,'\"\\/{}[]<|>_é☃日😀"), max_size=12)
WORDS = st.text(st.sampled_from("abcZ_09"), min_size=1, max_size=8)
ENUMS = st.lists(TEXTS, min_size=1, max_size=3)
TYPES = st.lists(st.sampled_from(["string", "integer", "null"]), min_size=1, unique=True)


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    said = {
        "description": TEXTS,
        "title": TEXTS,
        "default": st.one_of(TEXTS, st.integers(-99, 99), st.none(), st.booleans()),
    }
    more = {**said, "nullable": st.booleans(), "examples": st.lists(TEXTS, max_size=2)}
    return st.one_of(
        st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "boolean"])}, optional=more),
        st.fixed_dictionaries({"type": st.just("string"), "enum": ENUMS}, optional=more),
        st.fixed_dictionaries({"type": TYPES}, optional=more),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional=more),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)}, optional=more),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}, optional=more),
        objects(inner, more),
    )


def objects(inner: st.SearchStrategy[Any], more: dict[str, Any] | None = None) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(WORDS, inner, min_size=1, max_size=3)},
        optional={**(more or {}), "required": st.lists(WORDS, max_size=2, unique=True)},
    )


PARAMETERS = objects(st.recursive(st.just({"type": "number"}), schemas, max_leaves=6))


@given(PARAMETERS, TEXTS)
@settings(max_examples=volume(60, 1_000))
def test_any_tool_is_written_as_by_openai_harmony(parameters: Object, description: str) -> None:
    tool = function("f", parameters, description)
    case = Case("tool", turn(message("user", "Hi"), tools=[tool]), (user("Hi"),), functions=(tool,))
    assert ours.prompt(case) == oracle.text_of(oracle.prompt_ids(case))


@st.composite
def turns(draw: st.DrawFn) -> tuple[list[Object], list[Said]]:
    """A turn of a user without its answer: reasoning, preambles and calls."""
    text = draw(TEXTS)
    items, told = [message("user", text)], [user(text)]
    for number in range(draw(st.integers(0, 3))):
        if thought := draw(TEXTS):
            items, told = [*items, reasoning(thought)], [*told, analysis(thought)]
        if preamble := draw(TEXTS):
            items = [*items, message("assistant", preamble, phase="commentary")]
            told = [*told, commentary(preamble)]
        output = draw(TEXTS)
        items = [*items, call("f", "{}", f"call_{number}"), result(output, f"call_{number}")]
        told = [*told, called("f", "{}"), answered("f", output)]
    return items, told


@given(st.lists(turns(), max_size=2), turns(), TEXTS)
@settings(max_examples=volume(30, 1_000))
def test_any_conversation_is_written_as_by_openai_harmony(
    before: list[tuple[list[Object], list[Said]]], now: tuple[list[Object], list[Said]], answer: str
) -> None:
    """Reasoning before the last answer is left out of the input of openai-harmony, see
    `thoughts-between-answers-are-dropped`."""
    items: list[Object] = []
    told: list[Said] = []
    for number, (asked_then, said_then) in enumerate(before):
        items += [*_numbered(asked_then, number), message("assistant", answer)]
        told += [*(each for each in said_then if each.channel != "analysis"), final(answer)]
    case = Case("any", turn(*items, *now[0]), (*told, *now[1]))
    assert ours.prompt(case) == oracle.text_of(oracle.prompt_ids(case))


def _numbered(items: list[Object], number: int) -> list[Object]:
    """Makes the call ids of each turn unique."""
    return [each | {"call_id": f"{number}_{each['call_id']}"} if "call_id" in each else each for each in items]


HEADERS = (
    "<|channel|>analysis",
    "<|channel|>commentary",
    "<|channel|>final",
    "<|channel|>commentary to=functions.get_weather <|constrain|>json",
    " to=functions.get_time<|channel|>commentary<|constrain|>json",
    "<|channel|>analysis to=functions.get_time",
)
ENDS = ("<|end|>", "<|call|>", "<|return|>")
MESSAGES = st.tuples(st.sampled_from(HEADERS), TEXTS | st.just('{"a": [1]}'), st.sampled_from(ENDS))


@given(st.lists(MESSAGES, min_size=1, max_size=5))
@settings(max_examples=volume(60, 1_000))
def test_any_well_formed_output_is_read_as_by_openai_harmony(messages: list[tuple[str, str, str]]) -> None:
    output = "<|start|>assistant".join(f"{header}<|message|>{text}{end}" for header, text, end in messages)
    ids = oracle.ids_of(output)
    told = oracle.messages_of(ids)
    assert not isinstance(told, str)
    assert parts(ids) == [with_arguments(each) for each in parts_meant(told)]


def with_arguments(part: Part) -> Part:
    """Replaces empty arguments of a call by `{}`."""
    return Part("call", "{}", part.name) if part.kind.startswith("call") and not part.text else part
