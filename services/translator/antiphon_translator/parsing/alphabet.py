"""Control tokens as characters: what a model writes as one token can never be confused with text that spells it.

Each added token that a family's table speaks of gets a character of its own, a lone surrogate: those are no characters
of any text, no tokenizer can produce one from bytes, and yet regular expressions, `json` and `str` treat them as such.
The table's markers are written with them; a marker that is no token of the vocabulary stays text. On the way out they
become the tokens' text again: nothing that leaves this package may hold one, and nothing that does could be encoded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

FIRST, LAST = 0xD800, 0xDFFF

_CHARACTER = re.compile(f"[{chr(FIRST)}-{chr(LAST)}]")


class Alphabet:
    """`added` are the added tokens of a vocabulary, `markers` all literals and patterns of the family's table."""

    def __init__(self, added: Mapping[int, str], markers: Iterable[str]) -> None:
        table = "\0".join(markers)
        chosen = [
            token_id
            for token_id, text in added.items()
            if _is_marker(text) and (text in table or re.escape(text) in table)
        ]
        self.character_of: Mapping[int, str] = {token_id: chr(FIRST + n) for n, token_id in enumerate(chosen)}
        self._texts = {character: added[token_id] for token_id, character in self.character_of.items()}
        # In a pattern a marker may be written with escapes.
        spelt = {form: char for char, text in self._texts.items() for form in (text, re.escape(text))}
        self._characters = dict(sorted(spelt.items(), key=lambda pair: len(pair[0]), reverse=True))
        self._tokens = re.compile("|".join(map(re.escape, self._characters)) or r"(?!)")

    def encode(self, marker: str) -> str:
        """A literal or a pattern of a table in characters."""
        return self._tokens.sub(lambda match: self._characters[match.group()], marker)

    def decode(self, text: str) -> str:
        """Text for people."""
        return _CHARACTER.sub(lambda match: self._texts.get(match.group(), ""), text)

    def decode_json(self, text: str) -> str:
        """A part of JSON, in whose strings such a character may stand, as it is or escaped."""
        return _CHARACTER.sub(lambda match: json.dumps(self._texts.get(match.group(), ""))[1:-1], text)


def is_token(marker: str) -> bool:
    """Whether a literal of a table stands for one control token, rather than for its spelling."""
    return _CHARACTER.fullmatch(marker) is not None


def has_token(text: str) -> bool:
    return _CHARACTER.search(text) is not None


def _is_marker(text: str) -> bool:
    """Vocabularies have runs of blanks and single characters as added tokens, too: those are text."""
    return len(text) > 1 and not text.isspace()
