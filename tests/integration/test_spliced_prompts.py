"""Turns that pass their lineages on: a prompt has the ids that engines have computed, on any translator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon_core.ids import DerivedIds, SequentialIds
from antiphon_core.jsons import dumps, loads
from antiphon_core.limits import LINEAGE_BYTES_MAX
from antiphon_core.ports.translator import Batch, Turn
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import ChatChunk, FinishReason, Level, TokenChunk
from antiphon_translator.lineage import turn_lineage
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.parsing.segments import Text
from antiphon_translator.placement import PlacementHint
from tests.support.lineages import MODELS, Chat
from tests.support.pipelines import pipeline_of
from tests.support.prompts import ids_in
from tests.support.segmentations import split_some
from tests.support.served_models import message, model, turn
from tests.support.server_tools import SEARCH, listed, server

WORDS = (
    "the",
    "weather",
    "Rome",
    "is",
    "non-canonical",
    "\u00e9t\u00e9",
    "3.14",
    "\n\n",
    "```py\nx = 1\n```",
    "\U0001f600",
)
ANSWERS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
TALK = ("The weather is non-canonical.", "Misunderstandings characteristically continue.", "Nevertheless.")


def common_ids(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def common_chars(one: str, other: str) -> int:
    return common_ids(one.encode("utf-32-le"), other.encode("utf-32-le")) // 4


def prompt_ids(served: ServedModel, chat: Chat, lineages: Sequence[bytes]) -> list[int]:
    given = replace(turn("And then?", history=chat.history), lineages=tuple(lineages))
    _, request = pipeline_of(served, given, controls=ALL_CONTROLS, ids=SequentialIds()).start()
    return list(ids_in(request))


@cache
def served_once(**members: int) -> ServedModel:
    return MODELS["smollm2"].load(**members)


@cache
def chat_of(name: str = "smollm2", answers: tuple[str, ...] = TALK) -> Chat:
    """A chat whose model split nearly all tokens of its answers."""
    kind = MODELS[name]
    chat, served = Chat(kind, Random(1), share=0.9), kind.load()
    for answer in answers:
        chat.say(served, "Hello", kind.answer.format(answer))
    return chat


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=6)
@given(st.lists(ANSWERS, min_size=10, max_size=10), st.randoms(use_true_random=False))
def test_no_id_differs_before_the_first_difference_of_text(name: str, answers: list[str], chance: Random) -> None:
    """Ten turns over two translators, whose model splits its outputs as it likes."""
    kind = MODELS[name]
    translators = [kind.load(), kind.load()]
    decode = translators[0].tokenizer.decode
    chat, computed = Chat(kind, chance), list[list[int]]()
    for number, answer in enumerate(answers):
        is_call = bool(kind.call) and chance.random() < 0.3
        written = (kind.call if is_call else kind.answer).format(answer.replace("\n", " ") if is_call else answer)
        prompt = chat.say(chance.choice(translators), f"Question {number}?", written, cut=chance.choice([0, 0, 0, 1]))
        text = decode(prompt)
        for engine in computed:
            same = common_chars(text, decode(engine))
            whole = [each for each in computed if len(decode(each)) <= same]
            assert common_ids(prompt, engine) >= max((common_ids(each, engine) for each in whole), default=0)
            if text.startswith(decode(engine)):
                assert prompt[: len(engine)] == engine
        computed.append(chat.engine)


@pytest.mark.parametrize("name", [name for name in MODELS if "stripped" not in name])
def test_every_prompt_extends_what_engines_have_computed(name: str) -> None:
    kind = MODELS[name]
    chat, engine = Chat(kind, Random(2)), list[int]()
    for number in range(10):
        form = kind.call if kind.call and number % 2 else kind.answer
        prompt = chat.say(kind.load(), f"Question {number}?", form.format(TALK[number % 3]))
        assert prompt[: len(engine)] == engine
        assert chat.request is not None
        (lineage,) = turn_lineage.decode_rounds(chat.lineages[-1])
        assert lineage.expected_tokens == len(engine)
        hints = [PlacementHint("here", len(engine), 9_000)] if engine else []
        assert list(chat.request.placement) == hints
        engine = chat.engine


def run_round(given: Turn, text: str) -> tuple[list[int], list[int], Batch]:
    """Runs a round on a translator of its own, whose model splits nearly all tokens of this text. Returns the ids of
    the prompt, those with the text, and the last batch."""
    served = MODELS["qwen3"].load()
    ids = DerivedIds(f"{given.response_id}/{len(loads(given.output))}")
    made = pipeline_of(served, given, controls=ALL_CONTROLS, ids=ids)
    _, request = made.start()
    prompt = list(ids_in(request))
    written = split_some(served.tokenizer, served.tokenizer.encode(text), Random(len(prompt)), 0.9)
    made.receive([TokenChunk(written), TokenChunk(finish=FinishReason.STOP)])
    return prompt, [*prompt, *written], made.finish(completed_at=9)[-1]


def test_rounds_and_the_turn_behind_them_extend_what_engines_have_computed() -> None:
    calls = [f'<tool_call>\n{{"name": "shop__search", "arguments": {{"q": "{word}"}}}}\n</tool_call>' for word in TALK]
    given = replace(turn("Search.", tools=[server()]), output=dumps([listed(SEARCH)]))
    engine = list[int]()
    for text in calls:
        prompt, computed, last = run_round(given, text)
        assert prompt[: len(engine)] == engine
        assert last.pause is not None
        *before, opened = loads(last.pause.output_items)
        output = dumps([*before, opened | {"status": "completed", "output": "Found."}])
        given, engine = replace(given, output=output, round_lineage=last.pause.lineage), computed
    prompt, computed, last = run_round(given, TALK[0])
    assert prompt[: len(engine)] == engine
    assert last.final is not None
    history = [message("user", "Search."), *loads(last.final.output_items)]
    following = replace(turn("And then?", history=history, tools=[server()]), lineages=(last.final.lineage,))
    prompt, *_ = run_round(following, TALK[1])
    assert prompt[: len(computed)] == computed


def test_lineages_count_more_than_ids_that_are_cached_of_the_text() -> None:
    chat, served = chat_of(), MODELS["smollm2"].load()
    canonical = prompt_ids(served, chat, ())
    spliced = prompt_ids(served, chat, chat.lineages)
    assert canonical[: len(chat.engine)] != chat.engine
    assert spliced[: len(chat.engine)] == chat.engine
    assert prompt_ids(served, chat, ()) == spliced  # and are cached then, for a chain whose lineages are lost


@given(st.data())
def test_damaged_foreign_and_missing_lineages_never_change_the_text(data: st.DataObject) -> None:
    chat = chat_of()
    served = data.draw(st.sampled_from([served_once(), served_once(cache_bytes=0)]))
    others = chat_of(answers=("Something else.", "The weather is non-canonical.", "No.")).lineages
    foreign = chat_of("qwen3").lineages
    lineages = []
    for stored in chat.lineages:
        changed = bytearray(data.draw(st.sampled_from([stored, stored, *others, *foreign, b""])))
        for _ in range(data.draw(st.integers(0, 3)) if changed else 0):
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
        lineages.append(bytes(changed[: data.draw(st.integers(0, len(changed)))]))
    ids = prompt_ids(served, chat, data.draw(st.permutations(lineages)))
    assert served.tokenizer.decode(ids) == served.tokenizer.decode(prompt_ids(served, chat, ()))


def test_a_control_token_of_an_output_is_not_the_text_that_spells_it() -> None:
    """A user who makes the model spell a control token gets no control token into later prompts."""
    kind = MODELS["smollm2"]
    served, chat = kind.load(), Chat(kind, Random(1))
    chat.say(served, "Hello", "One")
    (lineage,) = turn_lineage.decode_rounds(chat.lineages[0])
    end = served.tokenizer.token_id("<|im_end|>")
    assert end is not None
    for spelt in ([end], served.tokenizer.encode("<|im")):
        ids = served.tokenizer.known_ids([*served.tokenizer.encode("One "), *spelt])
        stored = turn_lineage.encode(replace(lineage, written_ids=ids))
        chat.history[-1] = chat.history[-1] | {"content": [{"type": "output_text", "text": "One <|im_end|> two"}]}
        assert prompt_ids(kind.load(), chat, [stored]).count(end) == prompt_ids(kind.load(), chat, []).count(end)


def test_lineage_of_444_tokens_has_at_most_1100_bytes() -> None:
    kind = MODELS["smollm2"]
    chat = Chat(kind, Random(3), share=0.02)
    words = [word for word in " ".join(TALK).split() for _ in range(40)]
    Random(4).shuffle(words)
    answer = kind.load().tokenizer.encode(" ".join(words))[:440]
    chat.say(kind.load(), "Hello", kind.load().tokenizer.decode(answer))
    (lineage,) = turn_lineage.decode_rounds(chat.lineages[0])
    assert len(lineage.written_ids) >= 440
    assert len(chat.lineages[0]) <= 1_100


def test_of_a_very_long_output_the_first_ids_are_kept() -> None:
    chat = chat_of(answers=("Hello",))
    (lineage,) = turn_lineage.decode_rounds(chat.lineages[0])
    ids = MODELS["smollm2"].load().tokenizer.known_ids([40_000] * LINEAGE_BYTES_MAX)
    stored = turn_lineage.encode(replace(lineage, written_ids=ids))
    (kept,) = turn_lineage.decode_rounds(stored)
    assert len(stored) <= LINEAGE_BYTES_MAX
    assert 0 < len(kept.written_ids) < len(ids)


def test_a_server_that_renders_its_prompts_is_given_the_placement_of_the_last_turn() -> None:
    given = turn("Hello")
    made = pipeline_of(model(), given, controls=ALL_CONTROLS, ids=SequentialIds(), level=Level.CHAT)
    made.start()
    made.receive([ChatChunk([Text("Hi")], finish=FinishReason.STOP, placement="here")])
    final = made.finish(completed_at=9)[-1].final
    assert final is not None
    following = replace(turn("And then?"), lineages=(final.lineage,))
    _, request = pipeline_of(model(), following, controls=ALL_CONTROLS, ids=SequentialIds(), level=Level.CHAT).start()
    assert [(hint.endpoint, hint.at_ms) for hint in request.placement] == [("here", 9_000)]
