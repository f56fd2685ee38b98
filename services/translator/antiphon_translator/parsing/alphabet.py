"""Control tokens as characters: what a model writes as one token can never be confused with text that spells it.

Each added token that a family's table speaks of, and each other one that is special, gets a character of plane 15,
which no tokenizer produces. The table's markers are written with the same characters. A marker that is no token of the
vocabulary stays text. On the way out, characters become the tokens' text again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

FIRST = 0xF0000
LAST = 0xFFFFD

_CHARACTERS = re.compile(f"[{chr(FIRST)}-{chr(LAST)}]")


class Alphabet:
    """`added` are the added tokens of a vocabulary; `special` the ids among them that are never part of a text;
    `markers` are all literals of the family's table. With no tokens at all, everything is text."""

    def __init__(self, added: Mapping[int, str], *, special: Iterable[int] = (), markers: Iterable[str] = ()) -> None:
        table = "\0".join(markers)
        never_text = frozenset(special)
        chosen = [
            token_id
            for token_id, text in added.items()
            if _is_marker(text) and (token_id in never_text or text in table)
        ]
        self.character_of: Mapping[int, str] = {token_id: chr(FIRST + n) for n, token_id in enumerate(chosen)}
        self._texts = {character: added[token_id] for token_id, character in self.character_of.items()}
        by_length = sorted(self._texts.items(), key=lambda pair: len(pair[1]), reverse=True)
        self._characters = {text: character for character, text in by_length}
        self._tokens = re.compile("|".join(map(re.escape, self._characters)) or r"(?!)")

    def encode(self, marker: str) -> str:
        """A marker of a table, or the end of a prompt, in characters."""
        return self._tokens.sub(lambda match: self._characters[match.group()], marker)

    def decode(self, text: str) -> str:
        """Text for people."""
        return _CHARACTERS.sub(lambda match: self._texts.get(match.group(), ""), text)

    def decode_json(self, text: str) -> str:
        """A part of JSON, in whose strings such a character may stand."""
        return _CHARACTERS.sub(lambda match: json.dumps(self._texts.get(match.group(), ""))[1:-1], text)


def _is_marker(text: str) -> bool:
    """Vocabularies have runs of blanks and single characters as added tokens, too: those are text."""
    return len(text) > 1 and not text.isspace()
