"""Control tokens as single characters, so that a control token is never confused with text that spells its name.

Each added token that a family's table names gets a character of its own, a lone surrogate. No tokenizer can produce a
lone surrogate from bytes, and yet regular expressions, `json` and `str` treat it as a character. The table's markers
are written with these characters; a marker that is no token of the vocabulary stays text. On the way out the characters
become the tokens' text again. Nothing that leaves this package may hold one, because it could not be encoded as UTF-8.

Only markers are encoded. Patterns and words of a table are compared with the text between markers (`plain`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, field
from typing import Any

PLACEHOLDER = "{key}"
"""Stands in a literal for a text that an output decides. It is never encoded."""
PLAIN: Mapping[str, Any] = {"is_plain": True}
"""The metadata of a table's member that has no markers."""

FIRST, LAST = 0xD800, 0xDFFF

_CHARACTER = re.compile(f"[{chr(FIRST)}-{chr(LAST)}]")


class Alphabet:
    """The characters of the control tokens of one vocabulary and one family. `added` are the added tokens of the
    vocabulary, `markers` all literals of the family's table."""

    def __init__(self, added: Mapping[int, str], markers: Iterable[str]) -> None:
        used = _tokens_of(markers, filter(_is_marker, added.values()))
        chosen = [token_id for token_id, text in added.items() if text in used]
        self.character_of: Mapping[int, str] = {token_id: chr(FIRST + n) for n, token_id in enumerate(chosen)}
        self._texts = {character: added[token_id] for token_id, character in self.character_of.items()}
        self._characters = {text: character for character, text in self._texts.items()}
        self._tokens = _any_of(self._characters)

    def encode(self, marker: str) -> str:
        """Replaces the names of control tokens in a literal of a table by their characters."""
        return self._tokens.sub(lambda match: self._characters[match.group()], marker)

    def decode(self, text: str) -> str:
        """Replaces the characters of control tokens by the tokens' names."""
        return _CHARACTER.sub(lambda match: self._texts.get(match.group(), ""), text)

    def decode_json(self, text: str) -> str:
        """Replaces the characters of control tokens in a piece of JSON by the tokens' names, escaped for a string."""
        return _CHARACTER.sub(lambda match: json.dumps(self._texts.get(match.group(), ""))[1:-1], text)


def plain(default: Any = MISSING) -> Any:
    """A member of a table that has no markers: a pattern, a word, or a text for prompts. An added token such as
    `<name>` would otherwise replace a part of the pattern `(?P<name>.*)`."""
    return field(default=default, metadata=PLAIN)


def is_plain(member: Field[Any]) -> bool:
    return PLAIN.items() <= member.metadata.items()


def is_token(marker: str) -> bool:
    """Whether an encoded literal of a table is one control token, rather than text that spells one."""
    return _CHARACTER.fullmatch(marker) is not None


def has_token(text: str) -> bool:
    return _CHARACTER.search(text) is not None


def _tokens_of(markers: Iterable[str], tokens: Iterable[str]) -> set[str]:
    """The tokens that a tokenizer finds in the markers: the longest one at each position. A token that is only a part
    of another one, as `arg_key` is of `<arg_key>`, is not among them: such a token is a word of the text."""
    whole = "\0".join(markers)
    return set(_any_of(each for each in tokens if each in whole).findall(whole))


def _any_of(tokens: Iterable[str]) -> re.Pattern[str]:
    ordered = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered)) or r"(?!)")


def _is_marker(text: str) -> bool:
    """Whether an added token may be a marker. Vocabularies also have runs of blanks and single characters as added
    tokens: those are text."""
    return len(text) > 1 and not text.isspace()
