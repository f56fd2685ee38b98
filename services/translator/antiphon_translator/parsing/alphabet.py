"""Control tokens as single characters, so that a control token is never confused with text that spells its name.

Each added token that a family's table names gets a character of its own, a lone surrogate. No tokenizer can produce a
lone surrogate from bytes, and yet regular expressions, `json` and `str` treat it as a character. The table's markers
are written with these characters; a marker that is no token of the vocabulary stays text. On the way out the characters
become the tokens' text again. Nothing that leaves this package may hold one, because it could not be encoded as UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

FIRST, LAST = 0xD800, 0xDFFF

_CHARACTER = re.compile(f"[{chr(FIRST)}-{chr(LAST)}]")


class Alphabet:
    """The characters of the control tokens of one vocabulary and one family. `added` are the added tokens of the
    vocabulary, `markers` all literals and patterns of the family's table."""

    def __init__(self, added: Mapping[int, str], markers: Iterable[str]) -> None:
        table = "\0".join(markers)
        chosen = [
            token_id
            for token_id, text in added.items()
            if _is_marker(text) and (text in table or re.escape(text) in table)
        ]
        self.character_of: Mapping[int, str] = {token_id: chr(FIRST + n) for n, token_id in enumerate(chosen)}
        self._texts = {character: added[token_id] for token_id, character in self.character_of.items()}
        # A regular expression may spell a marker with escapes.
        spelt = {form: char for char, text in self._texts.items() for form in (text, re.escape(text))}
        self._characters = dict(sorted(spelt.items(), key=lambda pair: len(pair[0]), reverse=True))
        self._tokens = re.compile("|".join(map(re.escape, self._characters)) or r"(?!)")

    def encode(self, marker: str) -> str:
        """Replaces the names of control tokens in a literal or a pattern of a table by their characters."""
        return self._tokens.sub(lambda match: self._characters[match.group()], marker)

    def decode(self, text: str) -> str:
        """Replaces the characters of control tokens by the tokens' names."""
        return _CHARACTER.sub(lambda match: self._texts.get(match.group(), ""), text)

    def decode_json(self, text: str) -> str:
        """Replaces the characters of control tokens in a piece of JSON by the tokens' names, escaped for a string."""
        return _CHARACTER.sub(lambda match: json.dumps(self._texts.get(match.group(), ""))[1:-1], text)


def is_token(marker: str) -> bool:
    """Whether an encoded literal of a table is one control token, rather than text that spells one."""
    return _CHARACTER.fullmatch(marker) is not None


def has_token(text: str) -> bool:
    return _CHARACTER.search(text) is not None


def _is_marker(text: str) -> bool:
    """Whether an added token may be a marker. Vocabularies also have runs of blanks and single characters as added
    tokens: those are text."""
    return len(text) > 1 and not text.isspace()
