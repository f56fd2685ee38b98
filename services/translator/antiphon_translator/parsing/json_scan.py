"""Finds the end of a value whose text arrives in chunks, by its brackets and strings alone."""

from __future__ import annotations

import re

_SCALAR = re.compile(r"[^\s,:\"{}\[\]<\ud800-\udfff]*")
# No value has these outside of its strings. A tag or a control token (alphabet.py) follows a value that was broken off.
_MARKUP = "<\ud800-\udfff"


class JsonScan:
    """A scan of one value of JSON, or of a language with other quotes and brackets. It finds the end of the value, and
    does not check whether the value is well formed."""

    def __init__(self, *, quotes: str = '"', brackets: str = "{}[]", depth: int = 0) -> None:
        self.is_done = False
        self.is_broken = False  # the text so far cannot be the beginning of a value
        self._quotes = quotes
        self._brackets = brackets
        self._opening = brackets[::2]
        self._outside = re.compile(f"[^{re.escape(quotes + brackets)}{_MARKUP}]*")
        self._inside = {quote: re.compile(f"[^{quote}\\\\]*") for quote in quotes}
        self._depth = depth
        self._quote = ""  # the opening quote of the string that the scan is in; empty outside of strings
        self._is_escaped = False
        self._is_scalar = False
        self._has_begun = depth > 0

    def feed(self, text: str, at: int, *, ended: bool) -> int:
        """Scans `text` from index `at` on. Returns the index behind the value, or of the end of the text."""
        if at == len(text):
            return at
        if not self._has_begun:
            self._begin(text[at])
        if self._is_scalar:
            return self._scalar(text, at, ended=ended)
        while at < len(text) and not self.is_done and not self.is_broken:
            at = self._string(text, at) if self._quote else self._structure(text, at)
        return at

    def _begin(self, first: str) -> None:
        self._has_begun = True
        self._is_scalar = first.isalnum() or first == "-"
        self.is_broken = not self._is_scalar and first not in self._quotes + self._opening

    def _scalar(self, text: str, at: int, *, ended: bool) -> int:
        match = _SCALAR.match(text, at)
        end = match.end() if match is not None else at
        self.is_done = ended or end < len(text)
        return end

    def _structure(self, text: str, at: int) -> int:
        match = self._outside.match(text, at)
        at = match.end() if match is not None else at
        if at == len(text):
            return at
        if text[at] in self._quotes:
            self._quote = text[at]
        elif text[at] in self._brackets:
            self._depth += 1 if text[at] in self._opening else -1
            self.is_done = self._depth <= 0
        else:
            self.is_broken = True
            return at
        return at + 1

    def _string(self, text: str, at: int) -> int:
        if self._is_escaped:
            self._is_escaped = False
            return at + 1
        match = self._inside[self._quote].match(text, at)
        at = match.end() if match is not None else at
        if at == len(text):
            return at
        self._is_escaped = text[at] == "\\"
        if not self._is_escaped:
            self._quote = ""
            self.is_done = self._depth == 0
        return at + 1
