from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from antiphon_translator.output import plain_run
from antiphon_translator.output.token_output import TokenParser
from antiphon_translator.parsing import families
from antiphon_translator.parsing.segments import Reasoning, Segment, Text
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.plain_runs import taken_segments
from tests.support.tool_calls.outcomes import joined
from tests.support.tool_calls.random_tokens import RandomTokens, byte_level, sentence_pieces

Segments = list[Segment]

MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
VOCABULARIES = [byte_level(*MARKERS), sentence_pieces(*MARKERS)]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Segments:
    return taken_segments(monkeypatch)


def parser(
    tokens: RandomTokens,
    *,
    stops: Sequence[str] = (),
    stop_in_reasoning: bool = False,
    watch: Callable[[str], None] | None = None,
) -> TokenParser:
    syntax = TokenSyntax(families.load("hermes"), tokens.tokenizer)
    return TokenParser(syntax, schemas={"f": {}}, stops=stops, stop_in_reasoning=stop_in_reasoning, watch=watch)


def fed(made: TokenParser, tokens: RandomTokens, *texts: str) -> list[Segment]:
    return [segment for text in texts for segment in made.feed([tokens.ids[text.encode()]])]


@pytest.mark.parametrize("tokens", VOCABULARIES, ids=["bytes", "pieces"])
def test_plain_tokens_behind_the_first_one_are_taken(tokens: RandomTokens, taken: Segments) -> None:
    assert fed(parser(tokens), tokens, "the", " word", "🙂") == [Text("the"), Text(" word"), Text("🙂")]
    assert taken == [Text(" word"), Text("🙂")]


def test_chunk_of_plain_tokens_is_one_segment(taken: Segments) -> None:
    tokens, made = VOCABULARIES[0], parser(VOCABULARIES[0])
    fed(made, tokens, "the")
    assert made.feed([tokens.ids[b" word"], tokens.ids[b" there"]]) == taken == [Text(" word there")]


@pytest.mark.parametrize("other", ["<", "\n", "<tool_call>", "\ufffd"])
def test_any_other_token_ends_the_run(other: str, taken: Segments) -> None:
    tokens, made = VOCABULARIES[0], parser(VOCABULARIES[0])
    fed(made, tokens, "the", other, " word")
    assert taken == []


def test_reasoning_is_taken_and_counted(taken: Segments) -> None:
    tokens, made = VOCABULARIES[0], parser(VOCABULARIES[0])
    fed(made, tokens, "<think>", "the", " word", "</think>", "Hello", " there")
    assert taken == [Reasoning(" word"), Text(" there")]
    assert made.reasoning_tokens == 3


def test_marker_of_text_behind_a_run_is_found(taken: Segments) -> None:
    tokens, made = byte_level(), parser(byte_level())
    assert fed(made, tokens, "the", " word", "<", "think", ">", "Hello", " there") == [
        *(Text("the"), Text(" word"), Reasoning("Hello"), Reasoning(" there"))
    ]
    assert taken == [Text(" word"), Reasoning(" there")]


def test_output_with_log_probabilities_has_no_runs(taken: Segments) -> None:
    tokens, made = VOCABULARIES[0], parser(VOCABULARIES[0], watch=lambda _: None)
    fed(made, tokens, "the", " word", "Hello")
    assert taken == []


@pytest.mark.parametrize("stop_in_reasoning", [False, True])
def test_runs_are_searched_for_stop_texts(stop_in_reasoning: bool, taken: Segments) -> None:
    tokens = VOCABULARIES[0]
    made = parser(tokens, stops=(" word!", "wordHello"), stop_in_reasoning=stop_in_reasoning)
    words = fed(made, tokens, "the", " there", " word", " word", "Hello")
    assert joined([*words, *made.finish(cut_off=False)]) == [Text("the there word ")]
    assert "".join(each.text for each in taken if isinstance(each, Text)).rstrip() == " there word"
    assert made.is_stopped


def test_stop_text_within_the_plain_tokens_of_a_chunk_is_foreseen() -> None:
    tokens, made = VOCABULARIES[0], parser(VOCABULARIES[0], stops=("wordHello",))
    fed(made, tokens, "the")
    ids = [tokens.ids[each] for each in (b" word", b"Hello", b" there")]
    assert (made.can_stop_in(ids[::-1]), made.can_stop_in(ids), made.can_stop_in([tokens.ids[b"\n"]])) == (
        *(False, True, True),
    )


def test_vocabulary_whose_texts_depend_on_each_other_has_no_runs(taken: Segments) -> None:
    tokens = byte_level("<other>")
    unknown = ModelTokenizer(tokens.tokenizer.library)
    unknown.text_within = None
    fed(parser(RandomTokens(unknown, tokens.ids)), tokens, "the", " word")
    assert taken == []


def test_long_run_is_cut(taken: Segments, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_run, "IDS_MAX", 3)
    fed(parser(VOCABULARIES[0]), VOCABULARIES[0], *["the"] * 9)
    assert len(taken) == 6  # three, one for the parser, three, one for the parser


def test_control_token_that_was_held_back_as_the_beginning_of_a_stop_text_is_shown_as_spelt(taken: Segments) -> None:
    tokens, made = VOCABULARIES[0], parser(VOCABULARIES[0], stops=('<think>"Hello word!',))
    segments = fed(made, tokens, "the", '"', "<think>", '"', "Hello", " word", " there")
    assert joined(segments) == [Text('the"<think>"Hello word there')]
    assert taken
