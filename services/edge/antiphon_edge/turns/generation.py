"""The batches of one turn, from as many translators as it takes.

A translator that is lost in mid-stream is replaced by another one, which goes on from the token ids so far; who reads
the batches cannot tell. That needs an engine of ids: where the batches brought none, only a turn that has said nothing
yet can go on.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from antiphon_core.errors import EngineFault, TranslatorUnavailable
from antiphon_core.fold import Fold
from antiphon_core.ports.translator import Batch, Resume, Translator, Turn
from antiphon_edge.sealed.reasoning import Change, unchanged
from antiphon_edge.turns import covering

log = logging.getLogger(__name__)

REPLACEMENTS_MAX = 3
"""How often one turn may lose its translator."""


class Generation:
    """One turn. `fold` is what its events add up to, `token_ids` what the model said in them."""

    def __init__(
        self,
        translator: Translator,
        turn: Turn,
        *,
        fold: Fold | None = None,
        token_ids: Sequence[int] = (),
        change: Change = unchanged,
    ) -> None:
        """`fold` and `token_ids` are of what was sent already, if anything was. `change` has the last word on each
        batch."""
        self.fold = fold or Fold()
        self.token_ids = list(token_ids)
        self._translator = translator
        self._turn = turn
        self._change = change

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Everything that is still to be sent. Raises what the translator raises when nobody can go on, EngineFault
        when that is so from the beginning."""
        if not self.can_go_on():
            raise EngineFault("The response was interrupted, and its engine cannot go on in the middle of a text.")
        replacements = 0
        while True:
            try:
                async with aclosing(self._run()) as batches:
                    async for batch in batches:
                        yield batch
                return
            except TranslatorUnavailable as error:
                if replacements == REPLACEMENTS_MAX or not self.can_go_on() or self.fold.next_sequence == 0:
                    raise
                replacements += 1
                log.warning("%s goes on elsewhere: %s", self._turn.response_id, error)

    def can_go_on(self) -> bool:
        """Whether another translator can go on behind what was sent: there are ids, or nothing was said."""
        return bool(self.token_ids) or not self.fold.response().get("output")

    async def _run(self) -> AsyncGenerator[Batch, None]:
        resume = None
        if self.fold.next_sequence:
            resume = Resume(self.fold.next_sequence, tuple(self.token_ids))
        stream = self._translator.generate(self._turn, resume=resume, checkpoints=True)
        async with aclosing(covering.whole_steps(stream, has_ids=bool(self.token_ids))) as batches:
            async for each in batches:
                batch = self._change(each)
                if batch.final is None:
                    self._note(batch)
                yield batch

    def _note(self, batch: Batch) -> None:
        self.fold.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
        self.token_ids += batch.token_ids
