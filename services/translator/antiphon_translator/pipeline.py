"""One turn, from items to ids and from ids to events, without I/O, clock or randomness.

    pipeline = TurnPipeline(model, turn, controls=..., ids=...)     # InvalidRequest only here
    batches, request = pipeline.start()
    batches = pipeline.receive(chunks)                              # as often as chunks come, until pipeline.done
    batches = pipeline.finish(completed_at=...)                     # or pipeline.fail(error), once

What counts, and why a generation ended:

* Usage is exact: input tokens are the ids that are sent; output tokens are the ids that came, up to and with the one
  that ended the generation. An end-of-turn id counts, as it does with vLLM, if the engine delivers it; TensorRT-LLM
  keeps its `end_id` to itself, so there it does not. Ids behind the end are neither shown nor counted.
* A stop id ends the turn as completed; `max_tokens` ids without one end it as incomplete (`max_output_tokens`). An
  engine that stops earlier, without a reason, found its end-of-turn id.
* Stop ids are dropped by id; other added tokens that a model writes are text.

A turn always has one message, with empty text if the model says nothing, so that every client finds a message to
read. It begins with the first text, not before.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core import response
from antiphon_core.errors import AntiphonError, ContextLengthExceeded
from antiphon_core.ids import Ids
from antiphon_core.jsons import Object, parse_array
from antiphon_core.ports.translator import Batch, Turn
from antiphon_core.request import Parameters
from antiphon_translator import conversation_items, sampling
from antiphon_translator.generation import EngineChunk, FinishReason, GenerationRequest, Usage
from antiphon_translator.machine import (
    Append,
    Begin,
    Close,
    Complete,
    Fail,
    Incomplete,
    OpenNext,
    ResponseMachine,
    State,
)
from antiphon_translator.served_model import ServedModel
from antiphon_translator.tokens import Detokenizer

SEED_DIGITS = 8  # 32 bits: the most that every engine takes


def prompt_ids(model: ServedModel, turn: Turn) -> list[int]:
    """The prompt of a turn. InvalidRequest: something in it cannot be shown to the model, with its path."""
    return _encode(model, turn, Parameters.parse(turn.request).asked())


class TurnPipeline:
    """One turn. Used once, by one caller at a time."""

    def __init__(self, model: ServedModel, turn: Turn, *, controls: frozenset[str], ids: Ids) -> None:
        """Validates and encodes the turn, which may take long; `controls` are those of the engine.

        InvalidRequest: something in the turn cannot be served, with its path. ContextLengthExceeded.
        """
        asked = Parameters.parse(turn.request).asked()
        chosen, effective = sampling.choose(
            asked=asked,
            defaults=model.sampling_defaults,
            controls=controls,
            seed=int(ids.hex(SEED_DIGITS), 16),
        )
        prompt = _encode(model, turn, asked)
        max_tokens = _output_limit(asked, prompt_tokens=len(prompt), context_length=model.context_length)
        if "max_output_tokens" in asked:
            effective["max_output_tokens"] = max_tokens
        skeleton = response.skeleton(asked | effective, response_id=turn.response_id, created_at=turn.created_at)
        self.done = False
        """No further ids are wanted: the engine can be stopped."""
        self._request = GenerationRequest(
            request_id=turn.response_id,
            prompt_ids=prompt,
            max_tokens=max_tokens,
            stop_ids=model.stop_ids,
            sampling=chosen,
        )
        self._machine = ResponseMachine(skeleton, ids)
        self._detokenizer = Detokenizer(model.tokenizer, prompt_ids=prompt)
        self._stop_ids = frozenset(model.stop_ids)
        self._finish: FinishReason | None = None
        self._output_tokens = 0

    def start(self) -> tuple[list[Batch], GenerationRequest]:
        """The first events, and what the engine is to do."""
        self._machine.send(Begin())
        return self._machine.take(), self._request

    def receive(self, chunks: Sequence[EngineChunk]) -> list[Batch]:
        """The events that these chunks make: one delta for each chunk that completes some text."""
        for chunk in chunks:
            self._write("".join(map(self._text_of, chunk.token_ids)))
            if chunk.finish is not None and not self.done:
                self._end(chunk.finish)
        return self._machine.take()

    def finish(self, *, completed_at: int) -> list[Batch]:
        """The last events, once the engine has nothing more to say. `completed_at` is in Unix seconds."""
        cut_off = self._finish is FinishReason.LENGTH
        self._write(self._detokenizer.finish(cut_off=cut_off))
        if self._machine.state is State.BETWEEN_ITEMS:
            self._machine.send(OpenNext())
        self._machine.send(Close("incomplete" if cut_off else "completed"))
        if cut_off:
            self._machine.send(Incomplete(self._usage(), "max_output_tokens"))
        else:
            self._machine.send(Complete(self._usage(), completed_at))
        return self._machine.take()

    def fail(self, error: AntiphonError) -> list[Batch]:
        """The last events when the turn was broken off: what came so far is kept, and marked incomplete."""
        self._write(self._detokenizer.finish(cut_off=True))
        code = error.code or "server_error"
        self._machine.send(Fail(self._usage(), code=code, message=error.message, reason=error.reason))
        return self._machine.take()

    def _text_of(self, token_id: int) -> str:
        """Takes one id; the text that it completed."""
        if self.done:
            return ""
        self._output_tokens += 1
        if token_id in self._stop_ids:
            self._end(FinishReason.STOP)
            return ""
        if self._output_tokens >= self._request.max_tokens:
            self._end(FinishReason.LENGTH)
        return self._detokenizer.feed(token_id)

    def _end(self, reason: FinishReason) -> None:
        self._finish = reason
        self.done = True

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._machine.state is State.BETWEEN_ITEMS:
            self._machine.send(OpenNext())
        self._machine.send(Append(text))

    def _usage(self) -> Usage:
        return Usage(input_tokens=len(self._request.prompt_ids), output_tokens=self._output_tokens)


def _encode(model: ServedModel, turn: Turn, asked: Object) -> list[int]:
    shown = conversation_items.build(
        instructions=asked.get("instructions"),
        history=parse_array(turn.history, field="history"),
        given=parse_array(turn.input, field="input"),
    )
    return model.prompt.encode(shown, now_s=turn.created_at)


def _output_limit(asked: Object, *, prompt_tokens: int, context_length: int) -> int:
    """As many tokens as were asked for and fit behind the prompt."""
    room = context_length - prompt_tokens
    if room < 1:
        raise ContextLengthExceeded.of(input_tokens=prompt_tokens, context_length=context_length)
    wanted: int = asked.get("max_output_tokens", room)
    return min(wanted, room)
