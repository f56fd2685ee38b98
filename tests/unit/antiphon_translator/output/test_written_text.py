from __future__ import annotations

from collections.abc import Sequence

import pytest
from tokenizers import Encoding

from antiphon_core import offload
from antiphon_translator.output.written_text import PIECE_BYTES, WrittenText
from antiphon_translator.tokenizer.tokens import ModelTokenizer
from tests.support.served_models import tokenizer

WORDS = "The quick brown fox jumps over 13 lazy dogs. " * (3 * PIECE_BYTES // 40)
TEXTS = {"words": WORDS, "no spaces": "x" * len(WORDS), "characters of three bytes": "\u6f22\u5b57" * PIECE_BYTES}


class Recorder(ModelTokenizer):
    """Records the texts that it encodes."""

    def __init__(self) -> None:
        super().__init__(tokenizer().library)
        self.texts: list[str] = []

    def encode_all(self, texts: Sequence[str]) -> list[Encoding]:
        self.texts += texts
        return super().encode_all(texts)


def written(recorder: Recorder, *pieces: str) -> WrittenText:
    text = WrittenText(recorder)
    for piece in pieces:
        text.append(piece.encode(), is_reasoning=False)
    return text


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_encoded_in_pieces_each_once_and_never_within_a_character(name: str) -> None:
    recorder, text = Recorder(), TEXTS[name]
    assert sum(written(recorder, text).tokens()) > 0
    assert "".join(recorder.texts) == text
    assert max(len(each.encode()) for each in recorder.texts) <= PIECE_BYTES


def test_count_of_pieces_is_about_that_of_the_whole_text() -> None:
    answer, reasoning = written(Recorder(), WORDS).tokens()
    assert 0 <= answer - len(tokenizer().encode(WORDS)) <= len(WORDS) // PIECE_BYTES
    assert reasoning == 0


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("chars", [1, 1_000, 10 * PIECE_BYTES])
def test_count_depends_neither_on_the_messages_nor_on_when_pieces_are_counted(name: str, chars: int) -> None:
    whole, text = TEXTS[name], WrittenText(tokenizer())
    for start in range(0, len(whole), chars):
        text.append(whole[start : start + chars].encode(), is_reasoning=True)
        text.count_piece()
    assert text.tokens() == (0, written(Recorder(), whole).tokens()[0])


def test_one_call_counts_one_piece_and_the_rest_is_counted_at_the_end() -> None:
    recorder = Recorder()
    text = written(recorder, WORDS)
    before = text.uncounted_bytes
    assert not text.count_piece()
    assert (len(recorder.texts), text.uncounted_bytes) == (1, before - len(recorder.texts[0]))
    assert 0 < text.tokens_least < sum(text.tokens())
    assert text.count_piece()


def test_counting_stops_when_its_caller_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()

    def leave() -> None:
        raise offload.WorkAbandoned

    monkeypatch.setattr(offload, "require_wanted", leave)
    with pytest.raises(offload.WorkAbandoned):
        written(recorder, WORDS).tokens()
    assert len(recorder.texts) == 1
