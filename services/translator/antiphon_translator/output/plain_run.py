"""A run of plain tokens: their text is read past the detokenizer and the parser.

Most tokens of an answer are text wherever they stand (plain_tokens.py). While the parser waits for more of a run of
text, has read all text, and holds nothing back, a plain token cannot change its state: the parser would look for the
first character of a marker, find none, and emit the token's text as it is. So does this module, at the price of one
lookup. The results are equal because the detokenizer and the parser get what they did not see before they read another
token, and because the run begins only where `OutputParser.run` says that text comes out unchanged. Everything else
takes the way of all tokens: markers, white space at an end, parts of characters, added tokens, ids of which only some
are plain, and outputs with stop texts or log probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.plain_tokens import PlainTokens
from antiphon_translator.parsing.segments import Reasoning, Text
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.tokenizer.tokens import Detokenizer

IDS_MAX = 1_024
"""How many ids a run has at most, because they are kept until its end."""


class PlainRun:
    """The run of plain tokens in one output; there is none until `begin`, and after `end`."""

    __slots__ = ("_detokenizer", "_ids", "_parser", "_segment", "_syntax", "_texts")

    def __init__(self, syntax: TokenSyntax, parser: OutputParser, detokenizer: Detokenizer) -> None:
        self._syntax = syntax
        self._parser = parser
        self._detokenizer = detokenizer
        self._texts: PlainTokens | None = None
        self._segment: type[Text | Reasoning] = Text
        self._ids: list[int] = []

    def begin(self) -> None:
        """Begins a run, if text now comes out as it is. Call after the parser has read."""
        run = self._parser.run
        if run is not None and self._detokenizer.is_between_characters:
            markers, self._segment = run
            self._texts = self._syntax.plain_tokens(markers)

    def read(self, token_ids: Sequence[int]) -> Text | Reasoning | None:
        """The segment of these ids; None if not all of them are plain, or there is no run."""
        texts = self._texts
        if texts is None or len(self._ids) >= IDS_MAX:
            return None
        if len(token_ids) == 1:
            text = texts[token_ids[0]]
        else:
            found = [texts[token_id] for token_id in token_ids]
            text = "".join(found) if all(found) else ""
        if not text:
            return None
        self._ids += token_ids
        return self._segment(text)

    def end(self) -> None:
        """Ends the run, and tells the detokenizer and the parser what they did not see. Call before they read."""
        texts, self._texts = self._texts, None
        if self._ids and texts is not None:
            self._detokenizer.skip(self._ids)
            self._parser.skip("".join([texts[token_id] for token_id in self._ids]))
            self._ids = []
