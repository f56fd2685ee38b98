"""Every public vector with log probabilities: the segments are unchanged, and each text has its own tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from antiphon_translator.generation import TokenLogprob
from antiphon_translator.output.scored_output import Scores
from antiphon_translator.output.token_output import TokenParser
from antiphon_translator.parsing.segments import ScoredText, ScoredToken, Segment, Text, Unread
from tests.golden.tool_calls.test_vectors import from_ids
from tests.support.cases import in_one_test
from tests.support.tool_calls.outcomes import cuts, joined
from tests.support.tool_calls.vectors import Vector, fixtures
from tests.support.tool_calls.vocabularies import syntax, vocabulary

CUTS = 3


def scored(vector: Vector, pieces: Iterable[Sequence[int]]) -> list[Segment]:
    """The segments of ids that arrive in these pieces. The log probability of an id is its negated position."""
    table = syntax(vector.family, vector.repository, vector.markers)
    scores = Scores(table.tokenizer, table.alphabet.character_of, 0)
    prompt_ids = table.tokenizer.encode(vector.prompt_tail)
    parser = TokenParser(table, prompt_ids=prompt_ids, schemas=vector.schemas, watch=scores.watch)
    segments: list[Segment] = []
    numbers = count(1)
    for piece in pieces:
        for token_id, number in zip(piece, numbers, strict=False):
            scores.add_token(TokenLogprob(token_id, -float(number)))
        segments += scores.score(parser.feed(piece))
    return [*segments, *scores.score(parser.finish(cut_off=False))]


def texts(segments: Iterable[Segment]) -> list[tuple[str, list[ScoredToken]]]:
    """Whole texts with their tokens."""
    found: list[tuple[str, list[ScoredToken]]] = []
    last: Segment | None = None
    for segment in segments:
        if isinstance(segment, ScoredText):
            text, tokens = found.pop() if isinstance(last, ScoredText) else ("", [])
            found.append((text + segment.text, [*tokens, *segment.tokens]))
        last = last if isinstance(segment, Unread) else segment  # a note ends no text
    return found


@in_one_test("vector", fixtures())
def test_text_of_every_vector_has_its_own_tokens(vector: Vector) -> None:
    ids = vocabulary(vector.repository, vector.markers).ids(vector)
    first, *others = (scored(vector, pieces) for pieces in cuts(ids, at_random=CUTS))
    assert joined(Text(each.text) if isinstance(each, ScoredText) else each for each in first) == from_ids(
        vector, [ids]
    )
    assert all(texts(other) == texts(first) for other in others)
    numbers = [token.logprob for _, tokens in texts(first) for token in tokens]
    assert numbers == sorted(set(numbers), reverse=True)
    for text, tokens in texts(first):
        # A token with the end of a text and separating white space belongs to the text as a whole.
        written = b"".join(token.written for token in tokens).decode()
        assert written.strip() == text.strip()
        assert text in written
