"""A run of plain tokens: their text is read past the detokenizer and the parser.

Most tokens of an answer are text wherever they stand (plain_tokens.py). While the parser waits for more of a run of
text, has read all text, and holds nothing back, a plain token cannot change its state: the parser would look for the
first character of a marker, find none, and emit the token's text as it is. So does this module, at the price of one
lookup. The results are equal because the detokenizer and the parser get what they did not see before they read another
token, and because the run begins only where `OutputParser.run` says that text comes out unchanged. Everything else
takes the way of all tokens: markers, white space at an end, parts of characters, added tokens, ids of which only some
are plain, and outputs with log probabilities.

Of an output with stop sequences, the text of a run goes through the same search as all other text: that of the answer
(`OutputParser.emit`), or that of everything that the model writes (`searched`). The search may hold text back and emit
it later; it never emits a marker, because a run begins where nothing but text of runs can be held back.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.plain_tokens import PlainTokens
from antiphon_translator.parsing.segments import Reasoning, Segment, Text
from antiphon_translator.parsing.stop_texts import StopTexts
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.tokenizer.tokens import Detokenizer

IDS_MAX = 1_024
"""How many ids a run has at most, because they are kept until its end."""


class PlainRun:
    """The run of plain tokens in one output; there is none until `begin`, and after `end`."""

    __slots__ = (
        "_detokenizer",
        "_has_stops",
        "_ids",
        "_parser",
        "_searched",
        "_syntax",
        "_texts",
        "_unread",
        "segment",
    )

    def __init__(
        self,
        syntax: TokenSyntax,
        parser: OutputParser,
        detokenizer: Detokenizer,
        *,
        has_stops: bool = False,
        searched: StopTexts | None = None,
    ) -> None:
        """`has_stops`: the output has stop sequences. `searched` is their search, unless the parser has it."""
        self._syntax = syntax
        self._parser = parser
        self._detokenizer = detokenizer
        self._has_stops = has_stops
        self._searched = searched
        self._texts: PlainTokens | None = None
        self.segment: type[Text | Reasoning] = Text
        """The kind of segment that the text of the run becomes."""
        self._ids: list[int] = []
        self._unread: list[str] = []

    def begin(self) -> None:
        """Begins a run, if text now comes out as it is. Call after the parser has read."""
        run = self._parser.run
        if run is None or not self._detokenizer.is_between_characters:
            return
        if self._searched is None or not self._searched.withheld:
            markers, self.segment = run
            self._texts = self._syntax.plain_tokens(markers)

    def read(self, token_ids: Sequence[int]) -> list[Segment] | None:
        """The segments of these ids; None if not all of them are plain, or there is no run."""
        texts = self._texts
        if texts is not None and len(token_ids) == 1 and len(self._ids) < IDS_MAX:  # nearly always
            text = texts[token_ids[0]]
        else:
            text = self._text_of(token_ids)
        if not text:
            return None
        self._ids += token_ids
        if self._searched is not None:
            text = self._searched.feed(text)
        self._unread.append(text)
        if self._has_stops:
            return self._parser.emit(text) if text else []
        return [self.segment(text)]

    def can_stop_in(self, token_ids: Sequence[int]) -> bool:
        """Whether a stop sequence might be complete within these ids."""
        text = self._text_of(token_ids)
        if not text:
            return True
        return self._parser.may_stop_in(text) if self._searched is None else self._searched.may_match_in(text)

    def end(self) -> None:
        """Ends the run, and tells the detokenizer and the parser what they did not see. Call before they read."""
        self._texts = None
        if self._ids:
            self._detokenizer.skip(self._ids)
            self._parser.skip("".join(self._unread))
            self._ids, self._unread = [], []

    def _text_of(self, token_ids: Sequence[int]) -> str:
        """The text of these ids; empty if not all of them are plain, or there is no run."""
        texts = self._texts
        if texts is None or len(self._ids) >= IDS_MAX:
            return ""
        if len(token_ids) == 1:
            return texts[token_ids[0]]
        found = [texts[token_id] for token_id in token_ids]
        return "".join(found) if all(found) else ""
