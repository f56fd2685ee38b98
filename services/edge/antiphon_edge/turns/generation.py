"""Failover between translators: generates the batches of one turn, from as many translators as it takes.

A translator that is lost in mid-stream is replaced by another one, which continues after the token ids so far;
receivers do not notice. This needs an engine that gives token ids: without them, only a turn without output can be
continued.
"""

from __future__ import annotations

import logging

from antiphon_core import offload
from antiphon_core.errors import EngineFault, TranslatorUnavailable
from antiphon_core.flow import Flow
from antiphon_core.ports.translator import Batch, Receive, Resume, Translator, Turn
from antiphon_core.telemetry import metrics
from antiphon_edge.sealed.reasoning import Change, unchanged
from antiphon_edge.turns.batch_order import BatchOrder
from antiphon_edge.turns.interrupt import Interrupt
from antiphon_edge.turns.log_state import LogState
from antiphon_edge.turns.resumable_batches import ResumableBatches

log = logging.getLogger(__name__)

REPLACEMENTS_MAX = 3
"""How often one turn may lose its translator."""


class Generation:
    """The generation of one turn. Use once."""

    def __init__(
        self,
        translator: Translator,
        turn: Turn,
        receive: Receive,
        *,
        flow: Flow,
        state: LogState | None = None,
        change: Change = unchanged,
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
        self._terminal: Batch | None = None

    async def run(self) -> Batch:
        """Generates to the end, and returns the terminal batch, which `receive` does not get.

        Raises:
            ServiceFault: the batches of a translator do not follow each other.
            EngineFault: `state` has output without token ids, so no translator can continue it.
            Exception: the error of the last translator, of `receive` or `change`, or of the interrupt.
        """
        if not self.state.can_be_continued():
            raise EngineFault("The response was interrupted, and its engine cannot continue output that is unfinished.")
        replacements = 0
        while True:
            try:
                await self._interrupt.run(self._generate())
                return await self._end()
            except TranslatorUnavailable as error:
                can_continue = self.state.next_sequence and self.state.can_be_continued()
                if replacements == REPLACEMENTS_MAX or not can_continue:
                    raise
                replacements += 1
                metrics.TAKEOVERS.of("translator").add()
                log.warning("%s continues on another translator: %s", self._turn.response_id, error)

    async def _generate(self) -> None:
        """Runs the turn on one translator, from its state so far."""
        state, resume = self.state, None
        if state.next_sequence:
            resume = Resume(state.next_sequence, tuple(state.token_ids))
        self._order = BatchOrder(state.next_sequence)
        self._batches = ResumableBatches(has_ids=bool(state.token_ids))
        await self._translator.generate(self._turn, self._take, flow=self._flow, resume=resume, checkpoints=True)

    def _take(self, given: Batch) -> None:
        """Passes a batch on. An error on the way ends this generation, not the client of the translator."""
        if self._interrupt.error is not None:
            return
        try:
            self._order.check(given)
            if given.final is not None:
                self._terminal = given
            elif (batch := self._batches.take(given)) is not None:
                self._pass_on(self._change(batch))
        except Exception as error:  # noqa: BLE001 - raised again by `run`
            self._interrupt.break_off(error)

    def _pass_on(self, batch: Batch) -> None:
        self.state.feed(batch)
        self.state.token_ids.extend(batch.token_ids)
        self._receive(batch)

    async def _end(self) -> Batch:
        """Makes the batch that ends the turn, off the event loop: the events that wait for it repeat the output, and
        the change may seal a context as large as a history."""
        terminal, batches = self._terminal_batch(), self._batches
        size_bytes = batches.held_bytes
        if self._change is not unchanged:
            size_bytes += len(terminal.frames) + self._turn.size_bytes
        return await offload.run(lambda: self._change(batches.end(terminal)), size_bytes=size_bytes)

    def _terminal_batch(self) -> Batch:
        if self._interrupt.error is not None:
            raise self._interrupt.error
        if self._terminal is None:
            raise AssertionError("a translator ended a turn without a terminal batch")
        return self._terminal
