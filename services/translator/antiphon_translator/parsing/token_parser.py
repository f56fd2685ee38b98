"""Token ids in, segments out: the parser for engines that deliver ids.

Ids become text in which control tokens are characters of their own (alphabet.py); that text goes through the same
parser and the same table as any other, written in the same characters; segments come out in plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from antiphon_core.jsons import Object
from antiphon_translator.parsing.alphabet import Alphabet
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Arguments, CallBegin, Dropped, Reasoning, Segment, Text
from antiphon_translator.parsing.stop_texts import StopTexts
from antiphon_translator.parsing.traced import Watch
from antiphon_translator.tokenizer.tokens import Detokenizer, ModelTokenizer

PROMPT_TAIL_IDS = 128
"""So much of the prompt's end is looked at: the header of the turn that the model goes on with."""


class TokenSyntax:
    """A family in the characters of one vocabulary. Made once per model, and shared."""

    def __init__(self, family: Family, tokenizer: ModelTokenizer) -> None:
        self.tokenizer = tokenizer
        self.literal = family
        """The table with its markers as text, for engines that deliver text."""
        self.alphabet = Alphabet(tokenizer.added, family.markers())
        self.family = family.translated(self.alphabet.encode)

    def prompt_tail(self, prompt_ids: Sequence[int], *, whole: bool = False) -> str:
        """The end of a prompt as the parser wants it, or all of it."""
        detokenizer = Detokenizer(self.tokenizer, spelling=self.alphabet.character_of)
        tail = prompt_ids if whole else prompt_ids[-PROMPT_TAIL_IDS:]
        return "".join(map(detokenizer.feed, tail)) + detokenizer.finish(cut_off=False)


class TokenParser:
    """One model output. Used once. `schemas` and `watch` as with `OutputParser`; each text in `stop` ends the output.
    `continues_last`: the prompt ends within a message of the model's, however long that is already."""

    def __init__(
        self,
        syntax: TokenSyntax,
        *,
        prompt_ids: Sequence[int] = (),
        schemas: Mapping[str, Object] | None = None,
        stop: Sequence[str] = (),
        continues_last: bool = False,
        watch: Watch | None = None,
    ) -> None:
        self._alphabet = syntax.alphabet
        self._encode = syntax.tokenizer.encode
        self._control = syntax.alphabet.character_of.keys()
        self._detokenizer = Detokenizer(syntax.tokenizer, prompt_ids=prompt_ids, spelling=syntax.alphabet.character_of)
        tail = syntax.prompt_tail(prompt_ids, whole=continues_last)
        self._parser = OutputParser(syntax.family, schemas=schemas, prompt_tail=tail, watch=watch)
        spellings = dict.fromkeys((*stop, *map(syntax.alphabet.encode, stop)))
        self._stop = StopTexts(tuple(spellings)) if stop else None

    @property
    def stopped(self) -> bool:
        """Whether a stop text came."""
        return self._stop is not None and self._stop.matched

    @property
    def in_reasoning(self) -> bool:
        """Whether the id that comes next is reasoning, as far as is known."""
        return self._parser.in_reasoning

    def runs(self, token_ids: Sequence[int]) -> Iterator[Sequence[int]]:
        """The ids, cut where what they mean may change: behind each control token."""
        start = 0
        for index, token_id in enumerate(token_ids):
            if token_id in self._control:
                yield token_ids[start : index + 1]
                start = index + 1
        if start < len(token_ids):
            yield token_ids[start:]

    def encode(self, text: str) -> Sequence[int]:
        """The ids of text that was written by us; names of control tokens are those tokens."""
        return self._encode(text)

    def feed(self, token_ids: Iterable[int]) -> list[Segment]:
        """Reads ids and returns the segments that they complete."""
        text = "".join(map(self._detokenizer.feed, token_ids))
        if self._stop is not None:
            text = self._stop.feed(text)
        return self._decoded(self._parser.feed(text)) if text else []

    def finish(self, *, cut_off: bool) -> list[Segment]:
        """Returns the last segments. `cut_off`: the model would have gone on."""
        rest = self._detokenizer.finish(cut_off=cut_off)
        if self._stop is not None:
            rest = self._stop.feed(rest) + self._stop.finish()
        return self._decoded([*self._parser.feed(rest), *self._parser.finish(cut_off=cut_off)])

    def _decoded(self, segments: list[Segment]) -> list[Segment]:
        return [_decoded(each, self._alphabet) for each in segments]


def _decoded(segment: Segment, alphabet: Alphabet) -> Segment:
    match segment:
        case Text(text) | Reasoning(text) | Dropped(text):
            return _changed(segment, text, alphabet.decode)
        case Arguments(text):
            return _changed(segment, text, alphabet.decode_json)
        case CallBegin(name, model_id):
            return CallBegin(alphabet.decode(name), model_id and alphabet.decode(model_id))
        case _:
            return segment


def _changed(segment: Text | Reasoning | Dropped | Arguments, text: str, change: Callable[[str], str]) -> Segment:
    """A new segment only where something changes: hardly any text holds a control token."""
    return segment if text.isascii() else replace(segment, text=change(text))
