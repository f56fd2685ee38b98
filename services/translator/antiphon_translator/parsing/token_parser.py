"""Parses token ids into segments, for engines that deliver ids.

Ids become text in which each control token is a character of its own (alphabet.py). That text goes through the same
parser as any other, with the family's table in the same characters. The segments come out in plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from antiphon_core.jsons import Object
from antiphon_translator.parsing.alphabet import Alphabet
from antiphon_translator.parsing.family import Family
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Arguments, CallBegin, Reasoning, Segment, Text
from antiphon_translator.parsing.stop_texts import StopTexts
from antiphon_translator.parsing.traced import Watch
from antiphon_translator.tokenizer.tokens import Detokenizer, ModelTokenizer

PROMPT_TAIL_IDS = 128
"""How many ids of the prompt's end are looked at: enough for the header of the message that the model continues."""


class TokenSyntax:
    """A family's table in the characters of one vocabulary. It is made once per model, and shared by all turns."""

    def __init__(self, family: Family, tokenizer: ModelTokenizer) -> None:
        self.tokenizer = tokenizer
        self.literal = family
        """The table with its markers as text, for engines that deliver text."""
        self.alphabet = Alphabet(tokenizer.added, family.markers())
        self.family = family.translated(self.alphabet.encode)

    def prompt_tail(self, prompt_ids: Sequence[int], *, whole: bool = False) -> str:
        """The end of a prompt in the parser's characters; with `whole` the whole prompt."""
        tail = prompt_ids if whole else prompt_ids[-PROMPT_TAIL_IDS:]
        return self.tokenizer.text_of(tail, self.alphabet.character_of)


class TokenParser:
    """The parser of one output. `schemas` and `watch` are those of `OutputParser`; `stops` are the stop
    sequences in the text of the answer or, with `stop_in_reasoning`, in everything that the model writes.
    `continues_last`: the prompt ends within a message of the assistant, which may be longer than PROMPT_TAIL_IDS."""

    def __init__(
        self,
        syntax: TokenSyntax,
        *,
        prompt_ids: Sequence[int] = (),
        schemas: Mapping[str, Object] | None = None,
        stops: Sequence[str] = (),
        stop_in_reasoning: bool = False,
        continues_last: bool = False,
        watch: Watch | None = None,
    ) -> None:
        self._alphabet = syntax.alphabet
        self._encode = syntax.tokenizer.encode
        self._control = syntax.alphabet.character_of.keys()
        self._detokenizer = Detokenizer(syntax.tokenizer, prompt_ids=prompt_ids, spelling=syntax.alphabet.character_of)
        tail = syntax.prompt_tail(prompt_ids, whole=continues_last)
        spellings = tuple(dict.fromkeys((*stops, *map(syntax.alphabet.encode, stops))))
        self._parser = OutputParser(
            syntax.family,
            schemas=schemas,
            prompt_tail=tail,
            stops=() if stop_in_reasoning else spellings,
            watch=watch,
        )
        self._stops = StopTexts(spellings) if stops and stop_in_reasoning else None
        self.reasoning_tokens = 0
        """How many of the ids so far were reasoning."""

    @property
    def is_stopped(self) -> bool:
        """Whether a stop sequence was found."""
        return self._parser.is_stopped if self._stops is None else self._stops.matched

    @property
    def in_reasoning(self) -> bool:
        """Whether the next id is reasoning, as far as the ids so far tell."""
        return self._parser.in_reasoning

    def write(self, text: str) -> list[Segment]:
        """Reads text that this server wrote, such as the beginning of a forced call. Names of control tokens in it
        become those tokens. It does not count as reasoning."""
        counted = self.reasoning_tokens
        segments = self.feed(self._encode(text))
        self.reasoning_tokens = counted
        return segments

    def feed(self, token_ids: Sequence[int]) -> list[Segment]:
        """Reads ids of the model and returns the segments that they complete."""
        segments: list[Segment] = []
        for run in (token_ids,) if self._control.isdisjoint(token_ids) else self._runs(token_ids):
            if self._parser.in_reasoning:
                self.reasoning_tokens += len(run)
            text = "".join(map(self._detokenizer.feed, run))
            if self._stops is not None:
                text = self._stops.feed(text)
            if text:
                segments += self._decoded(self._parser.feed(text))
        return segments

    def _runs(self, token_ids: Sequence[int]) -> Iterator[Sequence[int]]:
        """Cuts the ids behind each control token, where reasoning may begin or end."""
        start = 0
        for index, token_id in enumerate(token_ids):
            if token_id in self._control:
                yield token_ids[start : index + 1]
                start = index + 1
        if start < len(token_ids):
            yield token_ids[start:]

    def finish(self, *, cut_off: bool) -> list[Segment]:
        """Returns the last segments. `cut_off`: the output ended before the model was done."""
        rest = self._detokenizer.finish(cut_off=cut_off)
        if self._stops is not None:
            rest = self._stops.feed(rest) + self._stops.finish()
        return self._decoded([*self._parser.feed(rest), *self._parser.finish(cut_off=cut_off)])

    def _decoded(self, segments: list[Segment]) -> list[Segment]:
        for index, segment in enumerate(segments):
            if type(segment) is not Text or not segment.text.isascii():  # ASCII text has no control token
                segments[index] = _decoded(segment, self._alphabet)
        return segments


def _decoded(segment: Segment, alphabet: Alphabet) -> Segment:
    match segment:
        case Text(text) | Reasoning(text):
            return _changed(segment, text, alphabet.decode)
        case Arguments(text):
            return _changed(segment, text, alphabet.decode_json)
        case CallBegin(name, model_id):
            return CallBegin(alphabet.decode(name), model_id and alphabet.decode(model_id))
        case _:
            return segment


def _changed(segment: Text | Reasoning | Arguments, text: str, change: Callable[[str], str]) -> Segment:
    """The segment with its text changed; the same object for ASCII text, which has no control token."""
    return segment if text.isascii() else replace(segment, text=change(text))
