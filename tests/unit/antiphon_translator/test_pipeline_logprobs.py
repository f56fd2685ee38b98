"""Turns with log probabilities, from ids to events."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core import events
from antiphon_core.errors import EngineFault, InvalidRequest
from antiphon_core.fold import Fold, fold
from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.translator import Batch
from antiphon_core.request.body import OUTPUT_LOGPROBS
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import Alternative, FinishReason, Level, TextChunk, TokenChunk, TokenLogprob
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.parsing import families
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.pipeline import TurnPipeline
from antiphon_translator.prompt.prompt import PromptEncoder
from antiphon_translator.templates.jinja import JinjaTemplate
from antiphon_translator.tokenizer.token_bytes import _BYTE_OF
from tests.support.pipelines import pipeline_of
from tests.support.reasoning_model import CALL, END_ID, TOKENIZER, WEATHER, reasoning_model
from tests.support.schema import validate_event, validate_response
from tests.support.served_models import model, tokenizer, turn
from tests.support.small_vocabulary import fallback_tokenizer, ids_of

CONTROLS = ALL_CONTROLS | {"logprobs", "top_logprobs"}
INCLUDE = [OUTPUT_LOGPROBS]
_LETTER_OF = {byte: letter for letter, byte in _BYTE_OF.items()}


def pipeline(served: ServedModel | None = None, level: Level = Level.TOKENS, **request: Any) -> TurnPipeline:
    given_turn = turn("Hi", include=INCLUDE, **request)
    return pipeline_of(served or reasoning_model(), given_turn, controls=CONTROLS, ids=SequentialIds(), level=level)


def scored(ids: Sequence[int]) -> list[TokenLogprob]:
    return [TokenLogprob(each, -n / 8, (Alternative(each, -n / 8), Alternative(7, -9.0))) for n, each in enumerate(ids)]


def play(
    ids: Sequence[int], cuts: Sequence[int] = (), *, served: ServedModel | None = None, error: bool = False, **more: Any
) -> list[Object]:
    """The events of a turn in which the model writes these ids. Also checks the invariants of `check`."""
    made = pipeline(served, **more)
    batches, asked = made.start()
    assert asked.top_logprobs == more.get("top_logprobs", 0)
    for start, end in pieces_at(cuts, len(ids)):
        if not made.is_done:
            batches += made.receive([TokenChunk(ids[start:end], logprobs=scored(ids)[start:end])])
    batches += made.fail(EngineFault("It broke.")) if error else made.finish(completed_at=9)
    log = [event for batch in batches for event in events.decode(batch.frames)]
    check(log, batches)
    return log


def play_text(ids: Sequence[int], cuts: Sequence[int] = (), *, late: int = 0, **more: Any) -> list[Object]:
    """The events of a turn of a text engine that sends whole characters, the last `late` of them only at the end."""
    made = pipeline(level=Level.TEXT, **more)
    batches, _ = made.start()
    told = 0
    for start, end in pieces_at(cuts, len(ids)):
        decode = getincrementaldecoder("utf-8")("replace").decode
        text = decode(b"".join(map(TOKENIZER.bytes_of, ids[:end])))
        ready = max(told, len(text) - late)
        batches += made.receive([TextChunk(text[told:ready], logprobs=scored(ids)[start:end])])
        told = ready
    rest = b"".join(map(TOKENIZER.bytes_of, ids)).decode("utf-8", "replace")[told:]
    batches += made.receive([TextChunk(rest, finish=FinishReason.STOP)]) + made.finish(completed_at=9)
    log = [event for batch in batches for event in events.decode(batch.frames)]
    check(log, batches)
    return log


def pieces_at(cuts: Sequence[int], length: int) -> list[tuple[int, int]]:
    """The start and end of each piece that is not empty."""
    edges = [0, *sorted(cut % (length + 1) for cut in cuts), length]
    return [(start, end) for start, end in pairwise(edges) if start < end]


def check(log: list[Object], batches: Sequence[Batch]) -> None:
    """Checks that the events fold to the response, that the deltas add up, and that all match the API schema."""
    response = log[-1]["response"]
    final = batches[-1].final
    assert final is not None
    assert fold(log) == response == loads(final.body) | {"output": loads(final.output_items)}
    passing = Fold()
    for batch in batches:
        passing.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
        passing.response()
    assert passing.response() == response
    validate_response(response)
    deltas = [event for event in log if event["type"] == events.OUTPUT_TEXT_DELTA]
    assert [each for delta in deltas for each in delta["logprobs"]] == [
        each for part in parts(log) for each in part["logprobs"]
    ]
    for delta in deltas:
        validate_event(delta)


def texts(log: Sequence[Object]) -> list[tuple[str, str]]:
    """Each delta and each whole text, with the text of its tokens."""
    deltas = ((event["delta"], event) for event in log if event["type"] == events.OUTPUT_TEXT_DELTA)
    whole = ((part["text"], part) for part in parts(log))
    return [(text, shown(holder["logprobs"])) for text, holder in (*deltas, *whole)]


def shown(logprobs: Sequence[Object]) -> str:
    """The joined text of the tokens. Bytes outside UTF-8 become U+FFFD, as they do in the answer."""
    return b"".join(bytes(each["bytes"]) for each in logprobs).decode("utf-8", "replace")


def parts(log: Sequence[Object]) -> Iterator[Object]:
    for item in log[-1]["response"]["output"]:
        if item["type"] == "message":
            yield from item["content"]


def test_every_event_with_text_has_its_log_probabilities() -> None:
    log = play([*ids_of(TOKENIZER, "ü!"), END_ID], top_logprobs=1)
    found = {event["type"]: event for event in log}
    (part,) = parts(log)
    assert part["logprobs"][2] == {
        "token": "!",
        "logprob": -0.25,
        "bytes": [33],
        "top_logprobs": [{"token": "!", "logprob": -0.25, "bytes": [33]}],
    }
    assert [each["token"] for each in part["logprobs"]] == ["�", "�", "!"]
    assert found[events.OUTPUT_TEXT_DONE]["logprobs"] == part["logprobs"]
    assert found[events.CONTENT_PART_DONE]["part"] == part
    assert found[events.OUTPUT_ITEM_DONE]["item"]["content"] == [part]
    assert found[events.CONTENT_PART_ADDED]["part"]["logprobs"] == []
    assert found[events.CREATED]["response"]["top_logprobs"] == 1


def test_reasoning_markers_calls_and_separators_have_no_log_probabilities() -> None:
    said = ("<think>", "Hm ü.", "</think>", "\n\nJa ☃. \n", *CALL, *CALL, "Ende.\n")
    log = play([*ids_of(TOKENIZER, *said), END_ID], tools=[WEATHER])
    assert [(part["text"], shown(part["logprobs"])) for part in parts(log)] == [("Ja ☃.",) * 2, ("Ende.\n",) * 2]


def test_token_with_hidden_and_shown_text_is_listed_whole() -> None:
    served = of_pieces("plain", "▁Yes", ".\n\n", "▁No")
    (part,) = parts(play([257, 258], served=served))
    assert (part["text"], shown(part["logprobs"])) == (" Yes.\n\n",) * 2
    served = of_pieces("hermes", "▁Yes", ".\n\n", "▁No", "<think>")
    ids = [257, 258, 260, *served.tokenizer.encode("x")]
    (part,) = parts(play(ids, served=served))
    assert (part["text"], shown(part["logprobs"])) == (" Yes.", " Yes.\n\n")


@pytest.mark.parametrize("cuts", [(), range(9)])
def test_incomplete_character_keeps_its_tokens_apart_from_the_next_text(cuts: Sequence[int]) -> None:
    log = play(ids_in([b"\xe2\x98", "<think>", "a", "</think>", "b"]), cuts)
    assert [(part["text"], shown(part["logprobs"])) for part in parts(log)] == [("�",) * 2, ("b",) * 2]


@pytest.mark.parametrize("cuts", [(), range(9)])
def test_mismatch_of_bytes_and_text_does_not_reach_the_next_text(cuts: Sequence[int]) -> None:
    served = of_pieces(
        "hermes", "<think>", "a", "</think>", "b"
    )  # this vocabulary makes one U+FFFD of each byte, all at once
    first, second = parts(play([0xE2 + 1, 0x98 + 1, 257, 258, 259, 260], cuts, served=served))
    assert (first["text"], [each["bytes"] for each in first["logprobs"]]) == ("��", [[0xE2], [0x98], [*b"<think>"]])
    assert (second["text"], shown(second["logprobs"])) == ("b", "b")


@pytest.mark.parametrize("cuts", [(), range(9)])
def test_tokens_behind_the_end_have_no_log_probabilities(cuts: Sequence[int]) -> None:
    served = of_pieces("plain", "behind")
    (part,) = parts(play([0xE2 + 1, 0x98 + 1, 0, 257], cuts, served=served))
    assert (part["text"], b"behind" in [bytes(each["bytes"]) for each in part["logprobs"]]) == ("��", False)


def of_pieces(family: str, *pieces: str) -> ServedModel:
    """A model with a SentencePiece vocabulary, in which the last piece is a marker by its spelling only."""
    vocabulary = fallback_tokenizer(*pieces, "▁", "x", "H", "i")
    return model(
        prompt=PromptEncoder(JinjaTemplate("{{ messages[0].content }}", special_tokens={}), vocabulary),
        tokenizer=vocabulary,
        stop_ids=(0,),
        syntax=TokenSyntax(families.load(family), vocabulary),
    )


def test_log_probabilities_without_the_include_are_not_requested() -> None:
    made = pipeline_of(reasoning_model(), turn("Hi", top_logprobs=3), controls=ALL_CONTROLS, ids=SequentialIds())
    batches, asked = made.start()
    assert asked.top_logprobs is None
    batches += made.receive([TokenChunk(ids_of(TOKENIZER, "Ja."))]) + made.finish(completed_at=0)
    log = [event for batch in batches for event in events.decode(batch.frames)]
    assert log[0]["response"]["top_logprobs"] == log[-1]["response"]["top_logprobs"] == 3
    assert [event["logprobs"] for event in log if "logprobs" in event] == [[], []]
    assert [part["logprobs"] for part in parts(log)] == [[]]


@pytest.mark.parametrize(("controls", "field"), [(set(), "include"), ({"logprobs"}, "top_logprobs")])
def test_logprobs_for_an_engine_without_them_are_rejected(controls: set[str], field: str) -> None:
    given_turn = turn("Hi", include=INCLUDE, top_logprobs=2)
    with pytest.raises(InvalidRequest) as caught:
        pipeline_of(reasoning_model(), given_turn, controls=ALL_CONTROLS | controls, ids=SequentialIds())
    assert (caught.value.field, caught.value.code) == (field, "unsupported_parameter")


# ---- properties ----

CUTS = st.lists(st.integers(0, 10_000), max_size=8)
SIMPLE = ("a", " ", "\n", "<think>", "</think>", *CALL)
HARD = ("ü", "🤖", b"\xff", b"\xe2\x98", "<|im_start|>", '{"name": "f"')
PIECES = st.lists(st.sampled_from(SIMPLE) | st.sampled_from(HARD), max_size=14)


def ids_in(pieces: Sequence[str | bytes]) -> list[int]:
    ids: list[int] = []
    for piece in pieces:
        letters = (TOKENIZER.token_id(_LETTER_OF[byte]) for byte in piece) if isinstance(piece, bytes) else ()
        ids += ids_of(TOKENIZER, piece) if isinstance(piece, str) else [each for each in letters if each is not None]
    return ids


@given(pieces=PIECES, cuts=CUTS, tools=st.booleans(), error=st.booleans(), limited=st.booleans())
def test_log_probabilities_match_their_text_for_any_cut(
    pieces: list[str | bytes], cuts: list[int], tools: bool, error: bool, limited: bool
) -> None:
    ids = ids_in(pieces)
    more: Object = {"tools": [WEATHER]} if tools else {}
    if limited:
        more["max_output_tokens"] = max(1, len(ids) - 1)
    log = play(ids, cuts, error=error, **more)
    assert log[-1]["response"]["output"] == play(ids, error=error, **more)[-1]["response"]["output"]
    assert all(text == wrote for text, wrote in texts(log))


@given(pieces=PIECES, cuts=CUTS, late=st.integers(0, 5), tools=st.booleans())
def test_log_probabilities_match_the_text_of_a_text_engine_for_any_cut(
    pieces: list[str | bytes], cuts: list[int], late: int, tools: bool
) -> None:
    ids = ids_in(pieces)
    more: Object = {"tools": [WEATHER]} if tools else {}
    log = play_text(ids, cuts, late=late, **more)
    assert list(parts(log)) == list(parts(play_text(ids, **more)))
    assert all(shown(part["logprobs"]) == part["text"] for part in parts(log))


@given(st.lists(st.integers(3, 49_151) | st.sampled_from([173, 242, 10813, 3, 5]), max_size=40), CUTS)
def test_log_probabilities_match_the_text_of_any_smollm2_ids(ids: list[int], cuts: list[int]) -> None:
    log = play(ids, cuts, served=model())
    (part,) = parts(log)
    assert part == next(parts(play(ids, served=model())))
    assert all(text == wrote for text, wrote in texts(log))


@given(st.text(max_size=40), CUTS)
def test_bytes_of_the_tokens_join_to_the_text(text: str, cuts: list[int]) -> None:
    ids = tokenizer().encode(text)
    (part,) = parts(play(ids, cuts, served=model()))
    joined = b"".join(bytes(each["bytes"]) for each in part["logprobs"])
    assert joined.decode("utf-8", "replace") == part["text"]
    assert len(part["logprobs"]) == len(ids)


@given(st.lists(st.integers(1, 265), max_size=30), CUTS)
def test_log_probabilities_of_sentencepiece_ids_do_not_depend_on_the_cut(ids: list[int], cuts: list[int]) -> None:
    served = of_pieces("hermes", "▁Yes", "é", ".\n", "<tool_call>")
    more: Object = {"tools": [WEATHER], "served": served}
    assert list(parts(play(ids, cuts, **more))) == list(parts(play(ids, **more)))
