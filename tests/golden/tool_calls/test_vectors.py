"""Every public vector, from text and from token ids: all cuts yield the expected segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from antiphon_translator.output.token_output import TokenParser
from antiphon_translator.parsing import families
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Segment, Unread
from tests.support.cases import in_one_test
from tests.support.tool_calls.outcomes import Outcome, cuts, joined
from tests.support.tool_calls.vectors import Vector, all_vectors, fixtures, suite
from tests.support.tool_calls.vocabularies import syntax, vocabulary

# Vectors that Antiphon deliberately reads differently.
POLICIES = {
    "gemma4/sglang-text-around-call": "white space between text and a call only separates",
    "kimi/k2i-vllm-content-after-tool-section": "white space between text and a call only separates",
    "qwen3-hermes/vllm-invalid-json-missing-brace": "arguments that are whole make a call whole",
    "gpt-oss/llamacpp-builtin-python-recipient": "what is sent to a tool that nobody offered is shown, as reasoning",
}
# Vectors that are ambiguous as text, because a marker can be a control token or a quotation.
UNDECIDABLE_FROM_TEXT = {
    "kimi/k3-control-marker-text-in-value": "a value spells <|close|>",
}
# Vectors without their real vocabulary. Their markers count as tokens everywhere.
QUOTED_MARKERS = {
    "kimi/k3-control-marker-text-in-value": "a value spells <|close|>",
}


def from_text(vector: Vector, pieces: Iterable[Sequence[str]]) -> list[Segment]:
    parser = OutputParser(families.load(vector.family), schemas=vector.schemas, prompt_tail=vector.prompt_tail)
    segments = [segment for piece in pieces for segment in parser.feed("".join(piece))]
    return joined([*segments, *parser.finish()])


def from_ids(vector: Vector, pieces: Iterable[Sequence[int]]) -> list[Segment]:
    table = syntax(vector.family, vector.repository, vector.markers)
    parser = TokenParser(table, prompt_ids=table.tokenizer.encode(vector.prompt_tail), schemas=vector.schemas)
    segments = [segment for piece in pieces for segment in parser.feed(piece)]
    return joined([*segments, *parser.finish(cut_off=False)])


@in_one_test("vector", all_vectors())
def test_vector_is_read_as_expected_from_text_for_any_cut(vector: Vector) -> None:
    first, *others = (from_text(vector, pieces) for pieces in cuts(vector.raw))
    assert all(other == first for other in others)
    differs = vector.id in POLICIES or vector.id in UNDECIDABLE_FROM_TEXT
    assert Outcome.of(first).is_what(vector.expected) is not differs, first


@in_one_test("vector", all_vectors())
def test_vector_is_read_as_expected_from_token_ids_for_any_cut(vector: Vector) -> None:
    ids = vocabulary(vector.repository, vector.markers).ids(vector)
    first, *others = (from_ids(vector, pieces) for pieces in cuts(ids))
    assert all(other == first for other in others)
    differs = vector.id in POLICIES or vector.id in QUOTED_MARKERS
    assert Outcome.of(first).is_what(vector.expected) is not differs, first


@in_one_test("vector", [*suite("families"), *suite("public_suite")])
def test_well_formed_vector_is_read_completely(vector: Vector) -> None:
    assert not [each for each in from_text(vector, [[vector.raw]]) if isinstance(each, Unread)]


def test_token_ids_of_a_vector_decode_to_its_text() -> None:
    with_ids = [vector for vector in fixtures() if vocabulary(vector.repository, vector.markers).number]
    assert len(with_ids) == 315
    for vector in with_ids:
        known = vocabulary(vector.repository, vector.markers)
        assert known.tokenizer.decode(known.ids(vector)) == vector.raw, vector.id


def test_exceptions_among_the_vectors_are_few_and_exist() -> None:
    ids = {vector.id for vector in fixtures()}
    assert len(ids) == 469
    assert {*POLICIES, *UNDECIDABLE_FROM_TEXT, *QUOTED_MARKERS} <= ids
    assert len(ids - {*POLICIES, *UNDECIDABLE_FROM_TEXT}) >= 460


def test_every_family_has_a_vector() -> None:
    assert {vector.family for vector in all_vectors()} == set(families.names())
