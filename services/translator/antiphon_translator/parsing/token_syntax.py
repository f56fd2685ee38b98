"""A family's table for engines that deliver ids: control tokens are characters of their own (alphabet.py)."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_translator.parsing.alphabet import Alphabet
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.markers import Markers
from antiphon_translator.parsing.plain_tokens import PlainTokens
from antiphon_translator.tokenizer.tokens import ModelTokenizer

PROMPT_TAIL_IDS = 128
"""How many ids of the prompt's end are looked at: enough for the header of the message that the model continues."""


class TokenSyntax:
    """A family's table in the characters of one vocabulary. It is made once per model, and shared by all turns."""

    def __init__(self, family: Family, tokenizer: ModelTokenizer) -> None:
        self.tokenizer = tokenizer
        self.literal = family
        """The table with its markers as text, for engines that deliver text."""
        self.alphabet = Alphabet(tokenizer.added, family.markers())
        self.family = family.encode_literals(self.alphabet.encode)
        self._plain_tokens: dict[Markers, PlainTokens] = {}

    def plain_tokens(self, markers: Markers) -> PlainTokens | None:
        """The tokens that are plain in a run of text that these markers of the family end. None if no token of the
        vocabulary is known to be."""
        found = self._plain_tokens.get(markers)
        if found is None and self.tokenizer.text_within is not None:
            found = self._plain_tokens[markers] = PlainTokens(self.tokenizer.text_within, markers)
        return found

    def prompt_tail(self, prompt_ids: Sequence[int], *, whole: bool = False) -> str:
        """The end of a prompt in the parser's characters; with `whole` the whole prompt."""
        tail = prompt_ids if whole else prompt_ids[-PROMPT_TAIL_IDS:]
        return self.tokenizer.text_of(tail, self.alphabet.character_of)
