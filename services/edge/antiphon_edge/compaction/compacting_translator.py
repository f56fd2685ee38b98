"""A translator that shows models the part of a conversation that context_window.py selects, and makes compactions.

With `context_management`, a turn whose prompt is over the threshold begins with a compaction: the model summarises the
conversation and then answers from the summary, and the compaction is the first output item. With a `compaction_trigger`
at the end of the input, the compaction is the whole response. The batches of such a turn have no token ids, so no other
translator can continue it: it would need the very same summary.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from antiphon_core import events, offload, response
from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError, ContextLengthExceeded, InvalidRequest, ModelNotFound
from antiphon_core.flow import Flow
from antiphon_core.jsons import Object, dumps, join_arrays, loads, work_bytes
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, EndedTurn, Final, Model, Receive, Resume, Translator, Turn
from antiphon_core.request.context import TRIGGER
from antiphon_edge.compaction import compaction, context_window
from antiphon_edge.compaction.compaction import Summary
from antiphon_edge.compaction.context_window import MARKS

THRESHOLD_SHARE = 0.8
"""How much of a model's context may be full before it is compacted, where the request does not say."""
_Generate = Callable[[Turn, Receive], Awaitable[None]]
_OPENING = (events.CREATED, events.IN_PROGRESS)
SEARCHED_INLINE_BYTES_MAX = 2**20


class CompactingTranslator:
    """A Translator (antiphon_core.ports.translator) that wraps another one."""

    def __init__(self, inner: Translator, *, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock

    async def generate(
        self,
        turn: Turn,
        receive: Receive,
        *,
        flow: Flow | None = None,
        resume: Resume | None = None,
        checkpoints: bool = False,
    ) -> None:
        if _is_plain(turn):
            await self._inner.generate(turn, receive, flow=flow, resume=resume, checkpoints=checkpoints)
            return
        visible = await context_window.shown_off_loop(turn)
        if await _is_compaction(visible):
            for batch in await self._compacted_alone(visible, resume):
                receive(batch)
            return
        is_fresh = resume is None or not resume.token_ids
        generate = partial(self._inner.generate, flow=flow, resume=resume, checkpoints=checkpoints)
        if is_fresh and await self._is_due(visible):
            await self._generate_from_summary(visible, receive, generate)
        else:
            await generate(visible, receive)

    async def count_tokens(self, turn: Turn) -> int:
        """Counts the tokens of what the model reads. InvalidRequest: also for a compaction that `generate` rejects."""
        if not _is_plain(turn):
            turn = await context_window.shown_off_loop(turn)
            await _is_compaction(turn)
        return await self._inner.count_tokens(turn)

    async def check(self, turn: Turn) -> None:
        if _is_plain(turn):
            await self._inner.check(turn)
            return
        visible = await context_window.shown_off_loop(turn)
        if await _is_compaction(visible):
            visible = compaction.summary_turn(visible, None)
        else:
            await self._is_due(visible)  # which raises as in `generate`
        await self._inner.check(visible)

    async def explain_cache(self, now: EndedTurn, compared: EndedTurn | None) -> bytes:
        return await self._inner.explain_cache(now, compared)

    async def models(self) -> Sequence[Model]:
        return await self._inner.models()

    async def ready(self) -> None:
        await self._inner.ready()

    async def _generate_from_summary(self, turn: Turn, receive: Receive, generate: _Generate) -> None:
        summary = await compaction.summarise(self._inner, turn)
        items = join_arrays([turn.input, dumps([summary.item])])
        short = await context_window.shown_off_loop(replace(turn, input=items))
        inserting = InsertingReceiver(summary, receive)
        try:
            await inserting.run(generate(short, inserting.take))
        except AntiphonError as error:
            error.usage = summary.usage
            raise

    async def _is_due(self, turn: Turn) -> bool:
        """Whether a turn asks for compaction, is long enough, and has items that a compaction replaces."""
        parameters: Object = loads(turn.request)
        rules = parameters.get("context_management")
        if not rules:
            return False
        threshold = rules[0].get("compact_threshold") or await self._threshold(parameters["model"])
        if not threshold:
            return False
        can_shrink = await offload.run(partial(context_window.can_shrink, turn), size_bytes=turn.size_bytes)
        return can_shrink and await self._is_as_long(turn, threshold)

    async def _is_as_long(self, turn: Turn, threshold: int) -> bool:
        try:
            return await self._inner.count_tokens(turn) >= threshold
        except ContextLengthExceeded:  # too long to be counted to its end
            return True

    async def _threshold(self, name: str) -> int:
        """The threshold where the request names none; 0 if the model's context is not known: nothing is compacted."""
        for model in await self._inner.models():
            if model.id == name:
                return int(model.context_length * THRESHOLD_SHARE)
        raise ModelNotFound.of(name)

    async def _compacted_alone(self, turn: Turn, resume: Resume | None) -> Sequence[Batch]:
        """Makes the batches of a response that is only a compaction: all of them, or those that follow `resume`."""
        summary = await compaction.summarise(self._inner, turn)
        created = response.skeleton(loads(turn.request), response_id=turn.response_id, created_at=turn.created_at)
        ended = created | {
            "status": Status.COMPLETED.value,
            "completed_at": self._clock.now_ms() // 1000,
            "output": [summary.item],
            "usage": summary.usage,
        }
        opening: list[Object] = [{"type": event_type, "response": created} for event_type in _OPENING]
        body, output_items = response.split(ended)
        first = _batch([*([] if resume else opening), *_item_events(summary)], resume.next_sequence if resume else 0)
        completed: Object = {"type": events.COMPLETED, "response": ended}
        final = Final(Status.COMPLETED, body, output_items)
        return first, _batch([completed], first.first_sequence + first.count, final)


def _is_plain(turn: Turn) -> bool:
    """Whether a turn is read as it is, and compacts nothing: most turns. Searches the JSON of small ones for a few
    words, without parsing it. Those that it does not search (1 ms a MiB) are not plain."""
    if turn.size_bytes > SEARCHED_INLINE_BYTES_MAX or b"context_management" in turn.request:
        return False
    return not any(map(turn.history.__contains__, MARKS)) and not any(map(turn.input.__contains__, MARKS))


class InsertingReceiver:
    """Inserts a compaction into the batches of a generation, and passes them to `receive` in their order.

    Large batches are changed off the event loop, and later ones wait for them: the last events of a text have its log
    probabilities, and decoding 3 MB of those takes 0.2 s."""

    def __init__(self, summary: Summary, receive: Receive) -> None:
        self._insertion = Insertion(summary)
        self._receive = receive
        self._waiting = deque[Batch]()
        self._passing: asyncio.Task[None] | None = None

    async def run(self, generating: Awaitable[None]) -> None:
        """Runs a generation whose receiver is `take`, until all of its batches were passed on, also if it fails."""
        try:
            await generating
        except Exception:
            await self._all_passed()
            raise
        except BaseException:
            if self._passing is not None:
                self._passing.cancel()
            raise
        await self._all_passed()

    def take(self, batch: Batch) -> None:
        if self._passing is None and work_bytes(batch.frames) <= offload.INLINE_BYTES_MAX:
            self._receive(self._insertion(batch))
            return
        self._waiting.append(batch)
        if self._passing is None:
            self._passing = asyncio.create_task(self._pass_on())

    async def _pass_on(self) -> None:
        while self._waiting:
            batch = self._waiting.popleft()
            changed = await offload.run(partial(self._insertion, batch), size_bytes=work_bytes(batch.frames))
            self._receive(changed)
        self._passing = None

    async def _all_passed(self) -> None:
        if self._passing is not None:
            await self._passing


class Insertion:
    """Inserts a compaction as the first output item of a response. Call it with each batch, in their order."""

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._moved_by = 0

    def __call__(self, batch: Batch) -> Batch:
        changed = list(self._with_insertion(events.decode(batch.frames)))
        first = batch.first_sequence + self._moved_by - (len(changed) - batch.count)
        return _batch(changed, first, self._final(batch.final))

    def _with_insertion(self, given: Sequence[Object]) -> Iterator[Object]:
        for event in given:
            if not self._moved_by and event["type"] not in _OPENING:
                inserted = _item_events(self._summary)
                self._moved_by = len(inserted)
                yield from inserted
            yield self._renumber(event)

    def _renumber(self, event: Object) -> Object:
        if "output_index" in event:
            event["output_index"] += 1
        if event["type"] in events.TERMINAL:
            event["response"] = self._with_compaction(event["response"])
            event["response"]["output"].insert(0, self._summary.item)
        return event

    def _with_compaction(self, ended: Object) -> Object:
        return ended | {"usage": compaction.sum_of(self._summary.usage, ended.get("usage") or {})}

    def _final(self, final: Final | None) -> Final | None:
        if final is None:
            return None
        body = dumps(self._with_compaction(loads(final.body)))
        return replace(final, body=body, output_items=join_arrays([dumps([self._summary.item]), final.output_items]))


async def _is_compaction(turn: Turn) -> bool:
    """Whether a turn is only a compaction. InvalidRequest: its trigger is misplaced, or there is nothing to compact."""
    if not await offload.run(partial(is_triggered, turn), size_bytes=len(turn.input)):
        return False
    await offload.run(partial(context_window.require_compactable_turn, turn), size_bytes=turn.size_bytes)
    return True


def is_triggered(turn: Turn) -> bool:
    """Whether the input ends with a compaction trigger. InvalidRequest: a trigger is not the last item."""
    if TRIGGER.encode() not in turn.input:
        return False
    items = loads(turn.input)
    positions = [index for index, item in enumerate(items) if item.get("type") == TRIGGER]
    for index in positions:
        if index != len(items) - 1:
            raise InvalidRequest(
                f"'input[{index}]' is a '{TRIGGER}', which must be the last item of the input.",
                field=f"input[{index}]",
                code="invalid_value",
            )
    return bool(positions)


def _item_events(summary: Summary) -> list[Object]:
    """The events of a compaction item."""
    item = summary.item
    blank = {name: value for name, value in item.items() if name != "summary"}
    return [
        {"type": events.OUTPUT_ITEM_ADDED, "output_index": 0, "item": blank},
        {"type": events.COMPACTING, "output_index": 0, "item_id": item["id"]},
        {"type": events.OUTPUT_ITEM_DONE, "output_index": 0, "item": item},
    ]


def _batch(unnumbered: Sequence[Object], first: int, final: Final | None = None) -> Batch:
    numbered = [event | {"sequence_number": number} for number, event in enumerate(unnumbered, first)]
    return Batch(first, len(numbered), b"".join(map(events.encode, numbered)), final)
