"""One turn, from items to ids and from ids to events, without I/O, clock or randomness.

    plan = TurnPlan.of(model, turn, controls=..., ids=...)          # InvalidRequest only here
    pipeline = TurnPipeline(plan, ids=...)
    batches, request = pipeline.start()
    batches = pipeline.receive(chunks)                              # as often as chunks come, until pipeline.done
    request = pipeline.follow_up()                                  # if not None, generate and receive again
    batches = pipeline.finish(completed_at=...)                     # or pipeline.fail(error), once

Usage and the end of a generation:

* Usage is exact: input tokens are the ids that are sent; output tokens are the ids that are received, up to and
  including the one that ended the generation. An end-of-turn id counts, as it does with vLLM, if the engine delivers
  it; TensorRT-LLM does not deliver its `end_id`. Ids behind the end are neither shown nor counted. Reasoning tokens are
  the ids that are received while the parser reads reasoning.
* A stop id ends the turn as completed; `max_tokens` ids without one end it as incomplete (`max_output_tokens`), as do
  more than OUTPUT_ITEMS_MAX items, and so does a filter of the server (`content_filter`). An engine that ends earlier
  and gives no finish reason has found its end-of-turn id.
* With `parallel_tool_calls: false` the first whole call ends the turn. A chat server counts tokens at the end, so its
  generation is read to the end, and what follows the call is dropped.
* Stop ids are dropped by id. Other added tokens mean what the model's family says, and are text otherwise.

A turn without any output has one message with empty text, because clients expect a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from antiphon_core.errors import AntiphonError, InvalidRequest
from antiphon_core.ids import Ids
from antiphon_core.jsons import Object
from antiphon_core.ports.translator import Batch, Resume, Usage
from antiphon_translator.generation import EngineChunk, FinishReason, GenerationRequest, TokenChunk, TokenPrompt
from antiphon_translator.output import citations, guided_output, outputs
from antiphon_translator.output.assembly import Assembly
from antiphon_translator.output.machine import (
    Announce,
    Begin,
    Complete,
    Fail,
    Incomplete,
    Pause,
    ResponseMachine,
)
from antiphon_translator.output.model_output import ModelOutput
from antiphon_translator.placement import PlacementHint
from antiphon_translator.schemas.answer_check import Unchecked
from antiphon_translator.turn import response_rounds
from antiphon_translator.turn.turn_plan import TurnPlan

_ENCODING = 32  # encoding a byte of text takes as long as parsing this many bytes of JSON
_REREADING = 32  # a text is parsed again id by id, or character by character
_REPEATING = 4  # the events that close an item, and the terminal event, have all of its text
_INCOMPLETE: Mapping[FinishReason | None, str] = {
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
}
"""The reasons of an incomplete response, by those of its generation."""


class TurnPipeline:
    """One turn. Use once, by one caller at a time."""

    def __init__(
        self,
        plan: TurnPlan,
        *,
        ids: Ids,
        resume: Resume | None = None,
        checkpoints: bool = False,
        may_check: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """`ids` must give a resumed turn the ids that its items had. With `checkpoints` the batches carry the token ids
        from which another translator can resume. `may_check` gets the work to check the answer against its format, and
        returns whether it may be checked.

        InvalidRequest: the turn cannot be resumed from token ids."""
        if resume is not None and resume.token_ids and not plan.is_resumable:
            raise _cannot_resume()
        self.plan = plan
        output = plan.prompt.output
        sent, self._unsent = response_rounds.split_output(output, resume) if output else ((), ())
        self.generates_nothing = bool(output) and response_rounds.generates_nothing(output)
        """Whether the round ends with its opening events: its calls were written before, and are approved or not."""
        self._machine = ResponseMachine(plan.skeleton, ids, sent)
        self._assembly = _assembly_of(plan, self._machine, ids)
        self._output = _output_of(plan)
        self._resume = resume
        self._sends_ids = checkpoints and plan.is_resumable
        self._unsent_ids: list[int] = []
        self.usage: Usage | None = None
        """The usage of this round, once it has ended."""
        self.placement: str | None = None
        """Where the prompt of the latest generation lies in a KV cache (placement.py); None before its first
        output, and where the engine does not say."""
        self.mismatch: str | None = None
        """How the answer of a turn that has ended fails to match its format; None if the answer matches."""
        self.is_unchecked = False
        """Whether the answer was not checked, because that would take too long."""
        self._may_check = may_check
        self.diagnose: Callable[[bytes], Object] | None = None  # makes `prompt_cache_diagnostics` of a lineage
        self.is_done = False
        """Whether nothing more is wanted from this generation: the engine can be stopped."""

    @property
    def has_enough(self) -> bool:
        """Whether the turn has all output that is wanted, whatever follows."""
        return self._assembly.has_enough

    @property
    def end_bytes(self) -> int:
        """The work of `finish` and `fail`, in bytes of JSON that take as long to parse: the last events repeat the
        output and the request, an answer is checked against its schema, and prompt and output are encoded where the
        engine reports no token counts."""
        output_bytes, check = self._machine.output_bytes, self.plan.answer_check
        check_bytes = check.work_bytes(output_bytes) if check is not None else 0
        prompt_bytes = self.plan.turn_bytes if self._output.must_count_prompt else 0
        count_bytes = _ENCODING * (prompt_bytes + self._output.uncounted_bytes)
        if self.diagnose is not None:
            count_bytes += _ENCODING * self.plan.turn_bytes
        return self.plan.request_bytes + _REPEATING * output_bytes + check_bytes + count_bytes

    @property
    def follow_up_bytes(self) -> int:
        """The work of `follow_up`, in bytes as in `end_bytes`: before a second generation the output is read again."""
        return _REREADING * self._machine.output_bytes if self.plan.answer_guide is not None else 0

    def start(self) -> tuple[list[Batch], GenerationRequest]:
        """Returns the opening events, and the request for the engine. The forced beginning of the output is sent with
        the first output of the model, so that a turn without token ids has sent nothing but the opening events."""
        self._machine.send(Begin())
        if self._resume is not None:
            self._machine.skip_to(self._resume.next_sequence)
        for item in self._unsent:
            self._machine.send(Announce(item))
        if self.generates_nothing:
            self._machine.send(Pause(self.plan.prompt.used, lineage=self.plan.prompt.round_lineage))
        batches = self._machine.take_whole() if self._unsent else self._machine.take()
        if self.plan.prompt.forced.beginning:
            self._assembly.take(self._output.write(self.plan.prompt.forced.beginning))
            self._note_progress()
        if self._resume is not None and self._resume.token_ids:
            return batches, self._resume_request(self._resume)
        return batches, self.plan.request

    def _resume_request(self, resume: Resume) -> GenerationRequest:
        """Reads the ids that another translator received, and returns the request for the rest. The boundaries of
        chunks do not change the state, so the turn continues as it was in the other translator."""
        self._assembly.take(self._output.take(TokenChunk(resume.token_ids)))
        self._note_progress()
        self._machine.skip_to(resume.next_sequence)
        request = self.plan.request
        return replace(
            request,
            prompt=TokenPrompt([*request.prompt_as(TokenPrompt).ids, *resume.token_ids]),
            max_tokens=max(request.max_tokens - len(resume.token_ids), 1),
        )

    def _note_progress(self) -> None:
        output, assembly = self._output, self._assembly
        is_whole_call = self.plan.has_one_call and assembly.has_enough and not output.reads_to_the_end
        self.is_done = output.finish is not None or assembly.is_full or is_whole_call

    def follow_up(self) -> GenerationRequest | None:
        """Returns the next request for the engine after a generation; None when the turn needs no further one."""
        if self._assembly.has_enough or self._assembly.is_full:
            return None
        request = self._output.follow_up()
        self._note_progress()
        if request is None or self.placement is None:
            return request
        created_ms = 1000 * int(self.plan.skeleton["created_at"])
        hint = PlacementHint(self.placement, request.prompt_tokens, created_ms)  # the first generation's cache
        return replace(request, placement=(hint, *request.placement))

    def receive(self, chunks: Sequence[EngineChunk]) -> list[Batch]:
        """Returns the events of these chunks: one delta for each chunk that completes some text."""
        for chunk in chunks:
            if chunk.placement is not None:
                self.placement = chunk.placement
            if self.is_done:
                break
            segments = self._output.take(chunk)
            if not (self.plan.has_one_call and self._assembly.has_enough):
                self._assembly.take(segments)
            if self._sends_ids and isinstance(chunk, TokenChunk):
                self._unsent_ids += chunk.ids
            self._note_progress()
        batches = self._machine.take(tuple(self._unsent_ids))
        if batches:
            self._unsent_ids.clear()
        return batches

    def finish(self, *, completed_at: int) -> list[Batch]:
        """Returns the last events, after the last generation has ended. `completed_at` is in Unix seconds."""
        ending = FinishReason.LENGTH if self._assembly.is_full else self._output.finish
        reason = _INCOMPLETE.get(ending) if not self._assembly.has_enough else None
        cut_off = reason is not None
        if self.plan.prompt.forced.rest and not cut_off:
            self._assembly.take(self._output.write(self.plan.prompt.forced.rest))
        self._assembly.take(self._output.end(cut_off=cut_off))
        self._assembly.close("incomplete" if cut_off else "completed")
        if self._assembly.is_empty:
            self._assembly.add_empty_message("incomplete" if cut_off else "completed")
        total, lineage = self._count(), self._lineage(at_ms=1000 * completed_at)
        if self._machine.left:
            self._machine.send(Pause(total, reason or "", lineage))
        else:
            found = None if self.diagnose is None else self.diagnose(lineage)
            if reason is not None:
                self._machine.send(Incomplete(total, reason, lineage, found))
            else:
                self._machine.send(Complete(total, completed_at, lineage, found))
                self._check()
        return self._machine.take()

    def _lineage(self, at_ms: int) -> bytes:
        """Remembers the ids of the output, and returns the lineage of the turn."""
        prompt, model, request = self.plan.prompt, self.plan.model, self.plan.request
        begun = request.prompt.ids[len(prompt.ids) :] if isinstance(request.prompt, TokenPrompt) else ()
        written = [*begun, *self._output.written_ids]  # all ids behind the prompt; none where the engine delivers none
        prompt.remember(model, written)
        usage, place = self._output.usage(), self.placement
        return prompt.lineage(model, usage, written, begun=len(begun), placement=place, at_ms=at_ms)

    def _count(self) -> Usage:
        """Sets the usage of this round, and returns that of the response so far."""
        self.usage = self._output.usage()
        return self.usage.added_to(self.plan.prompt.used)

    def _check(self) -> None:
        """Checks the answer against the format that was asked for."""
        if self.plan.answer_check is None:
            return
        try:
            self.mismatch = self.plan.answer_check.mismatch_of(self._machine.items, self._may_check)
        except Unchecked:
            self.is_unchecked = True

    def fail(self, error: AntiphonError) -> list[Batch]:
        """Returns the last events of a turn that failed: its output so far is kept and marked as incomplete."""
        self._assembly.take(self._output.end(cut_off=True))
        self._machine.send(Fail(self._count(), error))
        return self._machine.take()


def _assembly_of(plan: TurnPlan, machine: ResponseMachine, ids: Ids) -> Assembly:
    return Assembly(
        machine,
        plan.prompt.tools,
        ids,
        family=plan.model.syntax.literal.name,
        one_call=plan.has_one_call,
        summary=plan.has_summary,
        items_before=len(plan.prompt.output),
        cite=citations.of_output(plan.prompt.output) if plan.prompt.output else None,
    )


def _output_of(plan: TurnPlan) -> ModelOutput:
    """The output of the turn's generation. With a guide for the answer alone, `follow_up` may be a second
    generation."""
    if plan.answer_guide is not None:
        return guided_output.output_of(plan, plan.answer_guide)
    return outputs.output_of(plan.model, plan.prompt, plan.request)


def _cannot_resume() -> InvalidRequest:
    return InvalidRequest("This turn cannot be resumed from token ids.", field="resume.token_ids", code="invalid_value")
