"""Counts the tokens of an output's text, for engines that report no usage.

Text is encoded in pieces of PIECE_BYTES, each one once: the whole answer in one call took 0.5 s for each MB on the
event loop, and its encoding, freed at once, held the GIL. A piece ends before a space, where most vocabularies begin a
token, so the sum exceeds the count of the whole text by one token in 2,000 at most. Where a piece ends depends on the
text alone, and not on the messages that it came in.
"""

from __future__ import annotations

from antiphon_core import offload
from antiphon_translator.tokenizer.tokens import ModelTokenizer

PIECE_BYTES = 8 * 2**10
"""A piece takes 2 to 4 ms."""


class WrittenText:
    """The answer and the reasoning of one output, each with its token count."""

    def __init__(self, tokenizer: ModelTokenizer) -> None:
        self._answer, self._reasoning = _Text(tokenizer), _Text(tokenizer)

    def append(self, data: bytes, *, is_reasoning: bool) -> None:
        """Appends whole characters in UTF-8."""
        (self._reasoning if is_reasoning else self._answer).written.extend(data)

    def __bool__(self) -> bool:
        return bool(self._answer.written or self._reasoning.written)

    @property
    def chars(self) -> tuple[int, int]:
        """The characters of the answer, and of the reasoning."""
        return len(self._answer.written.decode()), len(self._reasoning.written.decode())

    @property
    def uncounted_bytes(self) -> int:
        """The bytes that `tokens` has to encode."""
        return self._answer.uncounted_bytes + self._reasoning.uncounted_bytes

    @property
    def tokens_least(self) -> int:
        """The tokens of the pieces that were counted."""
        return self._answer.tokens_least + self._reasoning.tokens_least

    def count_piece(self) -> bool:
        """Encodes one more piece, on the event loop. Returns whether no whole piece is left."""
        return self._answer.count_piece() and self._reasoning.count_piece()

    def tokens(self) -> tuple[int, int]:
        """The tokens of the answer, and of the reasoning. Encodes what was not counted."""
        return self._answer.tokens(), self._reasoning.tokens()


class _Text:
    """A text that grows. `written` is its UTF-8: a list of pieces would take 65 more bytes for each."""

    def __init__(self, tokenizer: ModelTokenizer) -> None:
        self.written = bytearray()
        self.tokens_least = 0
        self._counted_bytes = 0
        self._tokenizer = tokenizer

    @property
    def uncounted_bytes(self) -> int:
        return len(self.written) - self._counted_bytes

    def count_piece(self) -> bool:
        if self.uncounted_bytes <= PIECE_BYTES:
            return True
        start, self._counted_bytes = self._counted_bytes, _end_of_piece(self.written, self._counted_bytes)
        self.tokens_least += self._tokens_in(self.written[start : self._counted_bytes])
        return self.uncounted_bytes <= PIECE_BYTES

    def tokens(self) -> int:
        while not self.count_piece():
            offload.require_wanted()
        return self.tokens_least + self._tokens_in(self.written[self._counted_bytes :])

    def _tokens_in(self, data: bytearray) -> int:
        return len(self._tokenizer.encode_all([data.decode()])[0]) if data else 0


def _end_of_piece(text: bytearray, start: int) -> int:
    """Where the piece that begins at `start` ends: before the last space of its second half, or else at a character.
    The text goes on behind the piece."""
    end = start + PIECE_BYTES
    space = text.rfind(b" ", start + PIECE_BYTES // 2, end)
    if space > start:
        return space
    while text[end] & 0b1100_0000 == 0b1000_0000:  # in the middle of a character
        end -= 1
    return end
