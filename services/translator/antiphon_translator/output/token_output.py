"""The output of an engine that delivers ids: the ids are counted, and parsed into segments.

Ids become text in which each control token is a character of its own (parsing/alphabet.py). That text goes through the
same parser as any other, with the family's table in the same characters. The segments come out in plain text.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from antiphon_core.jsons import Object
from antiphon_core.ports.translator import EngineTimes, Usage
from antiphon_translator.generation import (
    EngineChunk,
    EngineFacts,
    FinishReason,
    GenerationRequest,
    TokenChunk,
    TokenPrompt,
    wrong_level,
)
from antiphon_translator.output.plain_run import PlainRun
from antiphon_translator.parsing.alphabet import Alphabet
from antiphon_translator.parsing.parser import OutputParser
from antiphon_translator.parsing.segments import Arguments, CallBegin, Reasoning, Segment, Text
from antiphon_translator.parsing.stop_texts import StopTexts
from antiphon_translator.parsing.token_syntax import TokenSyntax
from antiphon_translator.parsing.traced import Watch
from antiphon_translator.tokenizer.tokens import Detokenizer


class TokenOutput:
    """The output of an engine of ids. It ends at a stop id, at a stop sequence or at the token limit; ids behind that
    are ignored."""

    def __init__(self, parser: TokenParser, request: GenerationRequest) -> None:
        self._facts = EngineFacts()
        self.finish: FinishReason | None = None
        self._parser = parser
        self._prompt_tokens = len(request.prompt_as(TokenPrompt).ids)
        self._max_tokens = request.max_tokens
        self._stop_ids: Collection[int] = frozenset(request.stop_ids)
        self._has_stop_texts = bool(request.stop)
        self._tokens = 0
        self.written_ids = array("I")

    @property
    def is_in_reasoning(self) -> bool:
        return self._parser.is_in_reasoning

    @property
    def may_be_stopped(self) -> bool:
        return self._parser.is_stopped

    def write(self, text: str) -> list[Segment]:
        return self._parser.write(text)

    def take(self, chunk: EngineChunk) -> list[Segment]:
        if not isinstance(chunk, TokenChunk):
            raise wrong_level(chunk)
        if chunk.facts is not None:
            self._facts = self._facts.completed_by(chunk.facts)
        if self._has_stop_texts and len(chunk.ids) > 1 and self._parser.can_stop_in(chunk.ids):
            segments = self._take_one_by_one(chunk.ids)
        else:
            segments = self._feed(chunk.ids)
        if chunk.finish is not None:
            self._end(chunk.finish)
        return segments

    def resume(self, chunk: EngineChunk) -> None:
        self.take(chunk)

    def end(self, *, cut_off: bool) -> list[Segment]:
        return self._parser.finish(cut_off=cut_off)

    def usage(self) -> Usage:
        facts = self._facts
        cached = None if facts.cached_tokens is None else min(facts.cached_tokens, self._prompt_tokens)
        times = EngineTimes(facts.queue_ns, facts.prefill_ns)
        return Usage(self._prompt_tokens, self._tokens, self._parser.reasoning_tokens, cached, times, facts.lost_to)

    @property
    def uncounted_bytes(self) -> int:
        return 0

    @property
    def must_count_prompt(self) -> bool:
        return False

    @property
    def reads_to_the_end(self) -> bool:
        return False

    def follow_up(self) -> None:
        return None

    def _take_one_by_one(self, token_ids: Sequence[int]) -> list[Segment]:
        """Reads ids one by one, so that the id that completes a stop sequence is the last one."""
        segments: list[Segment] = []
        for token_id in token_ids:
            if self.finish is not None:
                break
            segments += self._feed((token_id,))
        return segments

    def _feed(self, token_ids: Sequence[int]) -> list[Segment]:
        """Counts ids up to the end of the generation, and reads them without the stop id. Only the last one can
        complete a stop sequence."""
        wanted: list[int] = []
        for token_id in token_ids:
            if self.finish is not None:
                break
            self._tokens += 1
            if token_id in self._stop_ids:
                self._end(FinishReason.STOP)
                break
            wanted.append(token_id)
            if self._tokens >= self._max_tokens:
                self._end(FinishReason.LENGTH)
        self.written_ids.extend(wanted)
        segments = self._parser.feed(wanted)
        if self._has_stop_texts and self._parser.is_stopped:
            self.finish = FinishReason.STOP  # also at the last token that the limit permits
        return segments

    def _end(self, reason: FinishReason) -> None:
        if self.finish is None:
            self.finish = reason


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
        self._has_stops = bool(stops)
        self._stops = StopTexts(spellings) if stops and stop_in_reasoning else None
        self._plain: PlainRun | None = None
        if watch is None:
            self._plain = PlainRun(syntax, self._parser, self._detokenizer, has_stops=bool(stops), searched=self._stops)
        self.reasoning_tokens = 0
        """How many of the ids so far were reasoning."""

    @property
    def is_stopped(self) -> bool:
        """Whether a stop sequence was found."""
        return self._parser.is_stopped if self._stops is None else self._stops.is_matched

    @property
    def is_in_reasoning(self) -> bool:
        """Whether the next id is reasoning, as far as the ids so far tell."""
        return self._parser.is_in_reasoning

    def write(self, text: str) -> list[Segment]:
        """Reads text that this server wrote, such as the beginning of a forced call. Names of control tokens in it
        become those tokens. It does not count as reasoning."""
        counted = self.reasoning_tokens
        segments = self.feed(self._encode(text))
        self.reasoning_tokens = counted
        return segments

    def feed(self, token_ids: Sequence[int]) -> list[Segment]:
        """Reads ids of the model and returns the segments that they complete."""
        if self._plain is None:
            return self._parse(token_ids)
        plain = self._plain.read(token_ids)
        if plain is None:
            self._plain.end()
            segments = self._parse(token_ids)
            self._plain.begin()
            return segments
        if self._plain.segment is Reasoning:
            self.reasoning_tokens += len(token_ids)
        return self._decode(plain) if self._has_stops else plain

    def can_stop_in(self, token_ids: Sequence[int]) -> bool:
        """Whether a stop sequence might be complete within these ids."""
        return self._plain is None or self._plain.can_stop_in(token_ids)

    def _parse(self, token_ids: Sequence[int]) -> list[Segment]:
        segments: list[Segment] = []
        for run in (token_ids,) if self._control.isdisjoint(token_ids) else self._runs(token_ids):
            if self._parser.is_in_reasoning:
                self.reasoning_tokens += len(run)
            text = "".join(map(self._detokenizer.feed, run))
            if self._stops is not None:
                text = self._stops.feed(text)
            if text:
                segments += self._decode(self._parser.feed(text))
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
        if self._plain is not None:
            self._plain.end()
        rest = self._detokenizer.finish(cut_off=cut_off)
        if self._stops is not None:
            rest = self._stops.feed(rest) + self._stops.finish()
        return self._decode([*self._parser.feed(rest), *self._parser.finish(cut_off=cut_off)])

    def _decode(self, segments: list[Segment]) -> list[Segment]:
        for index, segment in enumerate(segments):
            if type(segment) is not Text or not segment.text.isascii():  # ASCII text has no control token
                segments[index] = _decode(segment, self._alphabet)
        return segments


def _decode(segment: Segment, alphabet: Alphabet) -> Segment:
    match segment:
        case Text(text) | Reasoning(text):
            return _change_text(segment, text, alphabet.decode)
        case Arguments(text):
            return _change_text(segment, text, alphabet.decode_json)
        case CallBegin(name, model_id):
            return CallBegin(alphabet.decode(name), model_id and alphabet.decode(model_id))
        case _:
            return segment


def _change_text(segment: Text | Reasoning | Arguments, text: str, change: Callable[[str], str]) -> Segment:
    """The segment with its text changed; the same object for ASCII text, which has no control token."""
    return segment if text.isascii() else replace(segment, text=change(text))
