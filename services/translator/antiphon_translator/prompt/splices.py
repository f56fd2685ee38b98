"""Splices: ids that a model wrote, in place of those that the tokenizer would make of their text.

A model may split a text otherwise than its tokenizer does. Then the next prompt, encoded from text, differs from what
the engine has in its KV cache, and the engine computes again all that follows the difference. So where a prompt has
the text of an output, it gets the ids of that output.

The text of the prompt decides, and a splice never changes it:

* The bytes of the ids are those of the text. An id outside the vocabulary has none and ends the splice.
* A control token of the output stands where the prompt has that control token, and nowhere else. Text that only spells
  one, in the output or in the prompt, is not the same.
* Where only the beginning of the output agrees (a stop text cut it, or the template writes the rest otherwise), the
  splice ends before a control token, or where the tokenizer itself would end a token: the prompt never splits a word in
  a way that neither the model nor the tokenizer does.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from antiphon_translator.lineage.turn_lineage import Written
from antiphon_translator.templates.control_tokens import ControlTokens, Span
from antiphon_translator.tokenizer.tokens import ModelTokenizer

_WINDOW_BYTES = 256  # of the text before the end of a splice, in which an end of a token is looked for
_AHEAD_BYTES = 64  # of the text behind it, which decides where the last tokens end


@dataclass(frozen=True, slots=True)
class Splice:
    """Ids of the text from `begin` to `end`. A control token can only be the last of them."""

    begin: int
    end: int
    ids: array[int]


class Splicer:
    """Finds the text of outputs in the prompts of one vocabulary."""

    def __init__(self, tokenizer: ModelTokenizer, control: ControlTokens) -> None:
        self._tokenizer = tokenizer
        self._control = control.ids

    def fit(self, text: str, spans: Sequence[Span], written: Written) -> list[Splice]:
        """The splices of an output, one after the other without a gap. `spans` are those of all control tokens of the
        text behind `written.start`, at least."""
        splices: list[Splice] = []
        at, number = written.start, bisect_left(spans, (written.start, 0))
        if number and spans[number - 1][1] > at:
            return splices
        for ids, control in self._runs(written.ids):
            limit = spans[number][0] if number < len(spans) else len(text)
            agreed = self._agree(text[at:limit], ids)
            is_whole = len(agreed.ids) == len(ids) and agreed.end == limit - at and number < len(spans)
            if is_whole and control is not None and text[slice(*spans[number])] == self._tokenizer.added[control]:
                end = spans[number][1]
                splices.append(Splice(at, end, array(ids.typecode, (*ids, control))))
                at, number = end, number + 1
                continue
            if agreed.ids:
                splices.append(Splice(at, at + agreed.end, agreed.ids))
            break
        return splices

    def _runs(self, ids: array[int]) -> Iterator[tuple[array[int], int | None]]:
        """Cuts ids at control tokens: the ordinary ids before each, and the control token, None behind the last."""
        start = 0
        for index, token_id in enumerate(ids):
            if token_id in self._control:
                yield ids[start:index], token_id
                start = index + 1
        yield ids[start:], None

    def _agree(self, text: str, ids: array[int]) -> _Agreement:
        """The longest beginning of ordinary ids that can stand for the beginning of a text without control tokens."""
        spellings = list(map(self._tokenizer.bytes_of, ids))
        if not all(spellings):
            spellings = spellings[: spellings.index(b"")]
        spelt, wanted = b"".join(spellings), text.encode()
        if spelt == wanted:
            return _Agreement(ids[: len(spellings)], len(text))
        common = _common_bytes(spelt, wanted)
        ends = list(accumulate(map(len, spellings)))
        allowed = self._ends_of_tokens(wanted, common)
        count = next((n for n in range(len(ends), 0, -1) if ends[n - 1] in allowed), 0)
        return _Agreement(ids[:count], len(wanted[: ends[count - 1]].decode()) if count else 0)

    def _ends_of_tokens(self, text: bytes, end: int) -> frozenset[int]:
        """The places near `end`, and not behind it, where a token of the text ends; its own end is one. Nothing else
        is, if the tokenizer changes the text, or may treat it otherwise when it is cut."""
        whole = frozenset({len(text)}) if end == len(text) else frozenset[int]()
        if not self._tokenizer.separators:
            return whole
        begin, behind = _character(text, max(0, end - _WINDOW_BYTES)), _character(text, end + _AHEAD_BYTES)
        window = text[begin:behind]
        spellings = list(map(self._tokenizer.bytes_of, self._tokenizer.encode(window.decode())))
        if b"".join(spellings) != window:
            return whole
        places = accumulate(map(len, spellings), initial=begin)
        return whole | {place for place in places if 0 < place <= end and _character(text, place) == place}


@dataclass(frozen=True, slots=True)
class _Agreement:
    """Ids that stand for the first `end` characters of a text."""

    ids: array[int]
    end: int


def _common_bytes(one: bytes, other: bytes) -> int:
    """The length of the common beginning."""
    return bisect_left(range(min(len(one), len(other))), True, key=lambda at: one[: at + 1] != other[: at + 1])


def _character(text: bytes, place: int) -> int:
    """The beginning of the character at a place, or the end of the text."""
    place = min(place, len(text))
    while 0 < place < len(text) and text[place] & 0xC0 == 0x80:
        place -= 1
    return place
