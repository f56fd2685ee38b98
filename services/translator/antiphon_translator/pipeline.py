"""One turn, from items to ids and from ids to events, without I/O, clock or randomness.

    pipeline = TurnPipeline(model, turn, controls=..., ids=...)     # InvalidRequest only here
    batches, request = pipeline.start()
    batches = pipeline.receive(chunks)                              # as often as chunks come, until pipeline.done
    request = pipeline.follow_up()                                  # not None: the same again with this one
    batches = pipeline.finish(completed_at=...)                     # or pipeline.fail(error), once

What counts, and why a generation ended:

* Usage is exact: input tokens are the ids that are sent; output tokens are the ids that came, up to and with the one
  that ended the generation. An end-of-turn id counts, as it does with vLLM, if the engine delivers it; TensorRT-LLM
  keeps its `end_id` to itself, so there it does not. Ids behind the end are neither shown nor counted. Reasoning
  tokens are the ids that came while the parser was in reasoning.
* A stop id ends the turn as completed; `max_tokens` ids without one end it as incomplete (`max_output_tokens`). An
  engine that stops earlier, without a reason, found its end-of-turn id.
* With `parallel_tool_calls: false` the first whole call ends the turn.
* Stop ids are dropped by id; what other added tokens mean, the model's family says, and otherwise they are text.

A turn in which the model says nothing at all has one message with empty text, so that every client finds something to
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from antiphon_core import response
from antiphon_core.errors import AntiphonError, ContextLengthExceeded, InvalidRequest
from antiphon_core.ids import Ids
from antiphon_core.ports.translator import Batch, Resume, Turn
from antiphon_core.request.body import Parameters
from antiphon_translator.generation import UNLIMITED, EngineChunk, FinishReason, GenerationRequest, Level, Usage
from antiphon_translator.media.downloads import NOTHING, Downloads
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.output.assembly import Assembly
from antiphon_translator.output.guided_output import guided
from antiphon_translator.output.machine import Begin, Complete, Fail, Incomplete, ResponseMachine
from antiphon_translator.schemas.answer_check import Mismatches
from antiphon_translator.turn import forced_calls, reasoning_summary, sampling
from antiphon_translator.turn.turn_plan import plan_of
from antiphon_translator.turn.turn_prompt import TurnPrompt

_ENCODING = 32  # to encode a byte takes as long as to read so many
SEED_DIGITS = 8  # 32 bits: the most that every engine takes


class TurnPipeline:
    """One turn. Used once, by one caller at a time."""

    def __init__(
        self,
        model: ServedModel,
        turn: Turn,
        *,
        controls: frozenset[str],
        ids: Ids,
        level: Level = Level.TOKENS,
        downloads: Downloads = NOTHING,
        mismatches: Mismatches | None = None,
        resume: Resume | None = None,
        checkpoints: bool = False,
    ) -> None:
        """Validates and encodes the turn, which may take long; `controls` and `level` are those of the engine,
        `downloads` what is behind the URLs of the turn (media/turn_media.py says which are wanted). `mismatches` is
        told of an answer that is not in the form that was asked for. `ids` gives the same ones to whoever resumes the
        turn.

        InvalidRequest: something in the turn cannot be served, with its path. ContextLengthExceeded.
        """
        plan = plan_of(turn.request, controls, level)
        parameters, asked = plan.parameters, plan.asked
        self._answer_check = plan.answer_check
        self._mismatches = mismatches or Mismatches()
        chosen, effective = sampling.choose(
            asked=asked | parameters.extensions.sampling(),
            defaults=model.sampling_defaults,
            controls=controls,
            seed=int(ids.hex(SEED_DIGITS), 16),
        )
        media = TurnMedia(model.sight.with_controls(controls), downloads)
        prompt = TurnPrompt.of(model, turn, parameters, media, level=level, guides="guide" in controls)
        _require_forced(prompt, level)
        self._request = replace(
            _generation(model, turn, parameters, prompt, level), sampling=chosen, top_logprobs=plan.top_logprobs
        )
        if "max_output_tokens" in asked or model.max_output_tokens is not None:
            effective["max_output_tokens"] = self._request.max_tokens
        is_summarised = reasoning_summary.is_told(parameters.reasoning, model, level)
        effective |= reasoning_summary.effective(asked, is_told=is_summarised)
        skeleton = response.skeleton(asked | effective, response_id=turn.response_id, created_at=turn.created_at)
        self._machine = ResponseMachine(skeleton, ids)
        one_call = parameters.parallel_tool_calls is False
        self._assembly = Assembly(self._machine, prompt.tools, ids, one_call=one_call, summary=is_summarised)
        self._output, self._request = guided(level, model, prompt, self._request, plan.guide)
        self._forced = prompt.forced
        self._resume = resume
        self._unsaid: list[int] = []
        self._request_bytes = len(turn.request)
        self._turn_bytes = turn.size_bytes
        self._said_bytes = 0
        resumable = plan.guide is None and _is_resumable(self._request, level)
        if resume is not None and resume.token_ids and not resumable:
            raise _cannot_resume()
        self._tells_ids = checkpoints and resumable
        self.usage: Usage | None = None
        """The tokens that the turn took, once it has its end."""

    @property
    def done(self) -> bool:
        """Nothing more is wanted: the engine can be stopped."""
        return self._output.finish is not None or self._assembly.has_enough

    @property
    def end_bytes(self) -> int:
        """How much work `finish` and `fail` are, in bytes of JSON that would take as long to read: the terminal event
        repeats the request, an answer is checked against its schema, and where the engine counted nothing, prompt and
        answer are encoded."""
        check_bytes = self._answer_check.work_bytes(self._said_bytes) if self._answer_check is not None else 0
        count_bytes = _ENCODING * self._turn_bytes if self._output.must_count else 0
        return self._request_bytes + check_bytes + count_bytes

    def start(self) -> tuple[list[Batch], GenerationRequest]:
        """The first events, and what the engine is to do. What the model was made to begin with comes with its first
        own words: as long as there are no ids, nothing but these events was sent."""
        self._machine.send(Begin())
        if self._resume is not None:
            self._machine.skip_to(self._resume.next_sequence)
        batches = self._machine.take()
        if self._forced.begun:
            self._assembly.take(self._output.write(self._forced.begun))
        if self._resume is not None and self._resume.token_ids:
            self._go_on_from(self._resume)
        return batches, self._request

    def _go_on_from(self, resume: Resume) -> None:
        """Reads again what was read elsewhere. Where its ids were cut cannot matter, so everything stands as there."""
        self._assembly.take(self._output.take(EngineChunk(resume.token_ids)))
        self._machine.skip_to(resume.next_sequence)
        self._request = replace(
            self._request,
            prompt_ids=[*self._request.prompt_ids, *resume.token_ids],
            max_tokens=max(self._request.max_tokens - len(resume.token_ids), 1),
        )

    def follow_up(self) -> GenerationRequest | None:
        """The engine's next request after a generation is over; None when the turn is over."""
        return None if self._assembly.has_enough else self._output.follow_up()

    def receive(self, chunks: Sequence[EngineChunk]) -> list[Batch]:
        """The events that these chunks make: one delta for each chunk that completes some text."""
        for chunk in chunks:
            if self.done:
                break
            self._assembly.take(self._output.take(chunk))
            if self._tells_ids:
                self._unsaid += chunk.token_ids
        batches = self._with_ids(self._machine.take())
        if self._answer_check is not None:
            self._said_bytes += sum(len(batch.frames) for batch in batches)
        return batches

    def _with_ids(self, batches: list[Batch]) -> list[Batch]:
        """The last of some batches brings the ids that led to all of them."""
        if batches and self._unsaid:
            last = batches[-1]
            batches[-1] = Batch(last.first_sequence, last.count, last.frames, last.final, tuple(self._unsaid))
            self._unsaid.clear()
        return batches

    def finish(self, *, completed_at: int) -> list[Batch]:
        """The last events, once the engine has nothing more to say. `completed_at` is in Unix seconds."""
        cut_off = self._output.finish is FinishReason.LENGTH and not self._assembly.has_enough
        if self._forced.rest and not cut_off:
            self._assembly.take(self._output.write(self._forced.rest))
        self._assembly.take(self._output.end(cut_off=cut_off))
        self._assembly.close("incomplete" if cut_off else "completed")
        if self._assembly.is_empty:
            self._assembly.say_nothing("incomplete" if cut_off else "completed")
        self.usage = self._output.usage()
        if cut_off:
            self._machine.send(Incomplete(self.usage, "max_output_tokens"))
        else:
            self._machine.send(Complete(self.usage, completed_at))
            if self._answer_check is not None:
                self._mismatches.look_at(self._machine.snapshot(), self._answer_check)
        return self._machine.take()

    def fail(self, error: AntiphonError) -> list[Batch]:
        """The last events when the turn was broken off: what came so far is kept, and marked incomplete."""
        self._assembly.take(self._output.end(cut_off=True))
        self.usage = self._output.usage()
        self._machine.send(Fail(self.usage, error))
        return self._machine.take()


def _is_resumable(request: GenerationRequest, level: Level) -> bool:
    """Whether a generation can go on behind its ids. A grammar would start anew in the middle of its text, and log
    probabilities are not kept with the ids."""
    return level is Level.TOKENS and request.guide is None and request.top_logprobs is None


def _cannot_resume() -> InvalidRequest:
    return InvalidRequest("This turn cannot be resumed from token ids.", field="resume.token_ids", code="invalid_value")


def _generation(
    model: ServedModel, turn: Turn, parameters: Parameters, prompt: TurnPrompt, level: Level
) -> GenerationRequest:
    """Makes the engine's request, before the pipeline adapts it to the controls of the engine.

    ContextLengthExceeded: the prompt and the output do not fit into the model's context."""
    begun = model.tokenizer.encode(prompt.forced.begun) if prompt.forced.begun and level is not Level.CHAT else []
    prompt_ids = [*prompt.ids, *begun] if begun else prompt.ids
    return GenerationRequest(
        request_id=turn.response_id,
        prompt_ids=prompt_ids,
        max_tokens=_output_limit(parameters.max_output_tokens, model, prompt, begun=len(begun)),
        prompt_text=prompt.text(model) if level is Level.TEXT else "",
        chat=prompt.chat(model) if level is Level.CHAT else None,
        stop_ids=() if parameters.extensions.ignore_eos else model.stop_ids,
        stop=parameters.stop_texts,
        ignore_eos=bool(parameters.extensions.ignore_eos),
        lora=model.lora,
        images=prompt.images if level is Level.TEXT else (),
        cache_key=parameters.prompt_cache_key,
        asks_cached=model.kv_block_tokens > 0,
    )


def _require_forced(prompt: TurnPrompt, level: Level) -> None:
    """InvalidRequest: a call is wanted, and nothing would make sure of it. A wish is never ignored."""
    if not prompt.tools.required:
        return
    if not prompt.forced.begun and level is not Level.CHAT:  # nobody knows how a call of this family begins
        raise InvalidRequest(
            "This model can be offered tools, but not be made to call one: 'tool_choice' must be 'auto' or 'none'.",
            field="tool_choice",
            code="unsupported_value",
        )
    forced_calls.require_grammars(prompt.tools, prompt.forced)


def _output_limit(asked: int | None, model: ServedModel, prompt: TurnPrompt, *, begun: int) -> int:
    """As many tokens as were asked for, or as the model's profile says where nobody asks, and as fit behind the prompt
    and what was `begun`, as far as that is known here."""
    asked = model.max_output_tokens if asked is None else asked
    if not model.is_measured:
        return UNLIMITED if asked is None else asked
    context_length = model.context_length
    prompt_tokens = prompt.tokens + begun
    room = context_length - prompt_tokens
    if room < 1:
        raise ContextLengthExceeded.of(
            input_tokens=prompt_tokens, context_length=context_length, is_floor=prompt.is_floor
        )
    return room if asked is None else min(asked, room)
