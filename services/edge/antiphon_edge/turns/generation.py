"""Failover between translators: generates the batches of one turn, from as many translators as it takes.

A translator that is lost in mid-stream is replaced by another one, which continues after the token ids so far;
receivers do not notice. This needs an engine that gives token ids: without them, only a turn without output can be
continued.

The batches of a translator, in this process or in another one, are checked before anything else: dense sequence
numbers, and one terminal batch at the end. The check reads the numbers in the frames, because clients and the event log
get the frames unchanged. It takes a microsecond for each batch.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from antiphon_core import offload
from antiphon_core.errors import EngineFault, ServiceFault, TranslatorUnavailable
from antiphon_core.flow import Flow
from antiphon_core.fold import Fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.event_logs import Step, StepKind
from antiphon_core.ports.translator import NO_ITEMS, Batch, Receive, Resume, Translator, Turn
from antiphon_core.retrying import TAKEOVER
from antiphon_core.telemetry import metrics
from antiphon_edge.sealed.reasoning import Change

log = logging.getLogger(__name__)

T = TypeVar("T")

_FRAME_END = b"\n\n"  # JSON has no line feeds, so a blank line is always the end of a frame
_NUMBER = b'"sequence_number":'
_ID_TYPE = "q"  # eight bytes for each id, where a list needs 36


@dataclass
class LogState:
    """The state of a response by its events so far: all that is needed to continue it on another translator.

    `fold` is the response that the events add up to, `token_ids` the tokens that the model generated for them."""

    fold: Fold = field(default_factory=Fold)
    token_ids: array[int] = field(default_factory=partial(array, _ID_TYPE))
    steps: list[Step] = field(default_factory=list)
    """The steps of a turn that calls tools of servers."""
    items_before: int = 0
    """The number of output items before the current round."""
    ids_before: int = 0
    """The number of token ids before the current round."""
    is_over: bool = False
    """Whether the log has its terminal event."""

    @property
    def next_sequence(self) -> int:
        """The number of the next event."""
        return self.fold.next_sequence

    @property
    def output(self) -> Sequence[Object]:
        """The output items so far."""
        items: Sequence[Object] = self.fold.response().get("output", ()) if self.fold.next_sequence else ()
        return items

    async def parse(self) -> None:
        """Parses the events so far, off the event loop if they are large. After this, `output` takes no time."""
        await offload.run(self.fold.response, size_bytes=self.fold.size_bytes)

    def feed(self, batch: Batch) -> None:
        """Adds the next events, and the token ids that the model generated for them."""
        self.fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
        self.token_ids.extend(batch.token_ids)

    def put_ids(self, offset: int, token_ids: Sequence[int]) -> None:
        """Puts the token ids of a checkpoint in their place. A retried append has the ids of the one before it."""
        self.token_ids[offset:] = array(_ID_TYPE, token_ids)

    @property
    def round_ids(self) -> Sequence[int]:
        """The token ids of the current round."""
        return self.token_ids[self.ids_before :] if self.ids_before else self.token_ids

    def note_step(self, step: Step) -> None:
        """Adds a step. An intent ends a round: the next token ids and items are those of the next one."""
        self.steps.append(step)
        if step.kind is StepKind.INTENT:
            facts: Object = loads(step.data)
            self.ids_before, self.items_before = facts["ids"], facts["items"]

    def can_be_continued(self) -> bool:
        """Whether a translator can continue the response: the token ids of the round are known, or it has no output."""
        return bool(self.round_ids) or len(self.output) <= self.items_before


class TranslatorStream:
    """The batches of one translator. Checks their order, and joins them so that another translator can resume the
    stream behind each batch that is sent.

    A translator resumes from the token ids so far, and makes the events that follow them. Events in a batch without
    ids, such as those that close an item at the end, would be made again and sent twice. So they wait, and are joined
    to the next batch with ids or to the terminal one. A stream without any ids is left as it is.
    """

    def __init__(self, next_sequence: int = 0, *, has_ids: bool = False) -> None:
        """`has_ids`: the response already has token ids, from another translator or another edge."""
        self.terminal: Batch | None = None
        self._next_sequence = next_sequence
        self._has_ids = has_ids
        self._held: list[Batch] = []

    @property
    def held_bytes(self) -> int:
        """The size of the batches that wait."""
        return sum([len(batch.frames) for batch in self._held])

    def take(self, batch: Batch) -> Batch | None:
        """Takes the next batch. Returns the batch to send; None for the terminal batch, and while a batch waits.
        ServiceFault: the batch does not follow the one before, or its frames are not those that it says."""
        first, count = batch.first_sequence, batch.count
        if self.terminal is not None:
            raise _fault(f"the event {first} after the terminal one")
        if first != self._next_sequence or count < 1:
            raise _fault(f"{count} events from {first}, where {self._next_sequence} was the next one")
        if not _has_its_frames(batch):
            raise _fault(f"frames that are not the {count} events from {first}")
        self._next_sequence = first + count
        if batch.final is not None or batch.pause is not None:  # for each token, where a property takes as long again
            self.terminal = batch
            return None
        if batch.token_ids:
            self._has_ids = True
            return self.join(batch) if self._held else batch
        if not self._has_ids:
            return batch
        self._held.append(batch)
        return None

    def join(self, batch: Batch) -> Batch:
        """Joins the batches that wait to `batch`, which can be sent."""
        if not self._held:
            return batch
        batches, self._held = [*self._held, batch], []
        return Batch(
            first_sequence=batches[0].first_sequence,
            count=sum([each.count for each in batches]),
            frames=b"".join([each.frames for each in batches]),
            final=batch.final,
            token_ids=batch.token_ids,
            pause=batch.pause,
        )


def _has_its_frames(batch: Batch) -> bool:
    """Whether a batch has as many whole frames as it says, and the first and the last of them their numbers."""
    first, count, frames = batch.first_sequence, batch.count, batch.frames
    if not frames.endswith(_FRAME_END) or frames.count(_FRAME_END) != count:
        return False
    numbers = [(0, first)]
    if count > 1:
        numbers.append((frames.rfind(_FRAME_END, 0, -len(_FRAME_END)), first + count - 1))
    for start, number in numbers:
        at, digits = frames.find(_NUMBER, start) + len(_NUMBER), b"%d" % number
        if not frames.startswith(digits, at) or frames[at + len(digits) : at + len(digits) + 1].isdigit():
            return False
    return True


def _fault(sent: str) -> ServiceFault:
    return ServiceFault(f"The translator sent {sent}.")


class Generation:
    """The generation of one round of a turn, which most turns have one of. Use once."""

    def __init__(
        self,
        translator: Translator,
        turn: Turn,
        receive: Receive,
        *,
        flow: Flow,
        state: LogState | None = None,
        change: Change | None = None,
        interrupt: Interrupt | None = None,
    ) -> None:
        """`receive` gets every batch but the terminal one. `state` has the events that were sent before, and is kept up
        to date. `change` is applied to each batch before it is sent. `interrupt` breaks the generation off."""
        self.state = state or LogState()
        self._translator = translator
        self._turn = turn
        self._receive = receive
        self._flow = flow
        self._change = change
        self._interrupt = interrupt or Interrupt()
        self._stream: TranslatorStream

    async def run(self) -> Batch:
        """Generates to the end of the round, and returns its last batch, which `receive` does not get: the terminal
        one, or one with a pause.

        Raises:
            ServiceFault: the batches of a translator do not follow each other.
            EngineFault: `state` has output without token ids, so no translator can continue it.
            Exception: the error of the last translator, of `receive` or `change`, or of the interrupt.
        """
        if self.state.next_sequence:
            await self.state.parse()
            if not self.state.can_be_continued():
                message = "The response was interrupted, and its engine cannot continue output that is unfinished."
                raise EngineFault(message)
        attempts = 1
        while True:
            try:
                await self._interrupt.run(self._generate())
                return await self._end()
            except TranslatorUnavailable as error:
                can_continue = self.state.next_sequence and self.state.can_be_continued()
                if attempts >= TAKEOVER.attempts_max or not can_continue:
                    raise
                attempts += 1
                metrics.TAKEOVERS.of("translator").add()
                log.warning("%s continues on another translator: %s", self._turn.response_id, error)

    async def _generate(self) -> None:
        """Runs the turn on one translator, from its state so far."""
        next_sequence, token_ids = self.state.next_sequence, self.state.round_ids
        resume = Resume(next_sequence, tuple(token_ids), self._sent_items()) if next_sequence else None
        self._stream = TranslatorStream(next_sequence, has_ids=bool(token_ids))
        await self._translator.generate(self._turn, self._take, flow=self._flow, resume=resume, checkpoints=True)

    def _sent_items(self) -> int:
        """How many items of the turn's output were sent, for a round that has sent nothing yet."""
        return len(self.state.output) if self._turn.output != NO_ITEMS else 0

    def _take(self, given: Batch) -> None:
        """Passes a batch on. An error on the way ends this generation, not the client of the translator."""
        if self._interrupt.error is not None:
            return
        try:
            batch = self._stream.take(given)
            if batch is None:
                return
            if self._change is not None:
                batch = self._change(batch)
            self.state.feed(batch)
            self._receive(batch)
        except Exception as error:  # noqa: BLE001 - raised again by `run`
            self._interrupt.break_off(error)

    async def _end(self) -> Batch:
        """Makes the batch that ends the turn, off the event loop: the events that wait for it repeat the output, and
        the change may seal a context as large as a history."""
        stream, change = self._stream, self._change
        if self._interrupt.error is not None:
            raise self._interrupt.error
        if stream.terminal is None:
            raise AssertionError("a translator ended a turn without a terminal batch")
        terminal, size_bytes = stream.terminal, stream.held_bytes
        if change is not None:
            size_bytes += len(terminal.frames) + self._turn.size_bytes

        def end() -> Batch:
            batch = stream.join(terminal)
            return batch if change is None else change(batch)

        return await offload.run(end, size_bytes=size_bytes)


class Interrupt:
    """Ends one piece of awaited work with an error. The first error counts; work that begins later fails at once.

    A lease keeper that finds its lease lost, an event log that cannot be written any more and a cancelled job all end
    a turn this way. It needs no task of its own: the work runs in an `asyncio.timeout` without a deadline, and
    `break_off` sets the deadline to now.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self._scope: asyncio.Timeout | None = None

    def break_off(self, error: Exception) -> None:
        """Cancels the awaited work; `run` raises `error`."""
        if self.error is None:
            self.error = error
            if self._scope is not None:
                self._scope.reschedule(asyncio.get_running_loop().time())

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits `work` and returns its result. Raises the error of `break_off` if that is called before the end."""
        if self.error is not None:
            work.close()
            raise self.error
        try:
            async with asyncio.timeout(None) as self._scope:
                return await work
        except TimeoutError:
            if self.error is not None:
                raise self.error from None
            raise
        finally:
            self._scope = None
