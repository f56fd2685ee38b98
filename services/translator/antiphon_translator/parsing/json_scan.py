"""Where a value ends, told from brackets and strings alone, whatever parts its text comes in; or where it
breaks off."""

from __future__ import annotations

import re

_SCALAR = re.compile(r"[^\s,:\"{}\[\]<\ud800-\udfff]*")
# Outside of strings no value has these: a tag, or a control token (alphabet.py), ends what the model broke off.
_MARKUP = "<\ud800-\udfff"


class JsonScan:
    """One value of JSON, or of a language with other quotes and brackets. It does not say whether the value is well
    formed, only where it ends."""

    def __init__(self, *, quotes: str = '"', brackets: str = "{}[]", depth: int = 0) -> None:
        self.is_done = False
        self.is_broken = False  # what came cannot be the beginning of a value
        self._quotes = quotes
        self._brackets = brackets
        self._opening = brackets[::2]
        self._outside = re.compile(f"[^{re.escape(quotes + brackets)}{_MARKUP}]*")
        self._inside = {quote: re.compile(f"[^{quote}\\\\]*") for quote in quotes}
        self._depth = depth
        self._quote = ""  # the one that the string we are in began with
        self._is_escaped = False
        self._is_scalar = False
        self._begun = depth > 0

    def feed(self, text: str, at: int, *, ended: bool) -> int:
        """Reads on from `at`; where the value ended, or the end of the text."""
        if at == len(text):
            return at
        if not self._begun:
            self._begin(text[at])
        if self._is_scalar:
            return self._scalar(text, at, ended=ended)
        while at < len(text) and not self.is_done and not self.is_broken:
            at = self._string(text, at) if self._quote else self._structure(text, at)
        return at

    def _begin(self, first: str) -> None:
        self._begun = True
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
