"""The way of an engine's messages through the pipeline of a turn; large messages are processed in slices.

A message within the limits is passed on at once. A message of 1 MB of openers of calls blocked the event loop for 5 s,
one with the log probabilities of 80,000 tokens for 28 s, one with a call of a custom tool with 1 MB of input for 6 s.
Such a message is cut, and one slice is processed in each iteration of the loop. The flow is paused until the last
slice, so that nothing more is read from the engine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from antiphon_core.flow import Flow
from antiphon_core.limits import ENGINE_SLICE_CHARS_MAX, ENGINE_SLICE_ITEMS_MAX
from antiphon_core.ports.translator import Receive
from antiphon_translator.engines.base import Deliver
from antiphon_translator.generation import ChatChunk, EngineChunk, TextChunk, TokenChunk
from antiphon_translator.generation_watch import GenerationWatch
from antiphon_translator.parsing.segments import Arguments, Reasoning, Refusal, Segment, Text
from antiphon_translator.pipeline import TurnPipeline

_LONG = (Text, Reasoning, Refusal, Arguments)
"""The segments whose texts may be long."""


def through(pipeline: TurnPipeline, receive: Receive, watch: GenerationWatch) -> Deliver:
    """Returns the function that makes batches of chunks and passes them to their receiver."""

    def deliver(chunks: Sequence[EngineChunk]) -> bool:
        if watch.is_waiting:
            watch.note_first_output()
        for batch in pipeline.receive(chunks):
            receive(batch)
        return not pipeline.is_done

    return deliver


class SlicedDelivery:
    """Wraps `deliver` for one generation: the engine calls `take` instead. Use inside one event loop.

    Calls of `deliver` keep the order of the chunks, and are never nested."""

    def __init__(self, deliver: Deliver, flow: Flow) -> None:
        self._deliver = deliver
        self._flow = flow
        self._waiting: deque[EngineChunk] = deque()
        self._has_enough = False
        self._error: Exception | None = None
        self._drained = asyncio.Event()
        self._drained.set()
        self._scope: asyncio.Timeout | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the engine's generation as its block. Ends the block as soon as `deliver` wants nothing more of a slice,
        and waits for the remaining slices of a generation that has ended or failed.

        Raises the errors of `deliver` for a slice, and those of the generation."""
        scope = self._scope = asyncio.timeout(None)
        try:
            async with scope:
                try:
                    yield
                except Exception:
                    await self._drained.wait()
                    if not self._has_enough:
                        raise
                await self._drained.wait()
        except TimeoutError:
            if not scope.expired():
                raise
        finally:
            self._scope = None
            self._waiting.clear()
            self._flow.resume(self)
        if self._error is not None:
            raise self._error

    def take(self, chunks: Sequence[EngineChunk]) -> bool:
        """Passes chunks on, now or slice by slice. Returns whether more are wanted, as far as is known."""
        if self._has_enough:
            return False
        was_idle = not self._waiting
        if was_idle:
            only = chunks[0] if len(chunks) == 1 else None  # as nearly always: a chunk of a few tokens
            is_small = type(only) is TokenChunk and len(only.ids) + len(only.logprobs) <= ENGINE_SLICE_ITEMS_MAX
            if is_small or sum(map(_work, chunks)) <= 1:
                return self._deliver(chunks)
        self._waiting.extend(part for chunk in chunks for part in slices(chunk))
        if was_idle:
            self._flow.pause(self)
            self._drained.clear()
            asyncio.get_running_loop().call_soon(self._step)
        return True

    def _step(self) -> None:
        """Passes one slice on, and schedules the next."""
        if not self._waiting:  # the generation was cancelled
            self._drained.set()
            return
        try:
            self._has_enough = not self._deliver(self._next())
        except Exception as error:  # noqa: BLE001 - `running` raises it
            self._error, self._has_enough = error, True
        if self._waiting and not self._has_enough:
            asyncio.get_running_loop().call_soon(self._step)
            return
        self._waiting.clear()
        self._drained.set()
        self._flow.resume(self)
        if self._has_enough and self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def _next(self) -> list[EngineChunk]:
        """Takes as many waiting chunks as make one slice of work."""
        taken = [self._waiting.popleft()]
        work = _work(taken[0])
        while self._waiting and (work := work + _work(self._waiting[0])) <= 1:
            taken.append(self._waiting.popleft())
        return taken


def slices(chunk: EngineChunk) -> Iterator[EngineChunk]:
    """Cuts a chunk into parts, in order. The last part has the finish reason and the usage."""
    if _work(chunk) <= 1:
        return iter((chunk,))
    match chunk:
        case TokenChunk():
            return _token_slices(chunk)
        case TextChunk():
            return _text_slices(chunk)
        case ChatChunk():
            return _segment_slices(chunk)


def _token_slices(chunk: TokenChunk) -> Iterator[TokenChunk]:
    ids, scores = chunk.ids, chunk.logprobs
    last = _last_start(max(len(ids), len(scores)), ENGINE_SLICE_ITEMS_MAX)
    for at in range(0, last, ENGINE_SLICE_ITEMS_MAX):
        end = at + ENGINE_SLICE_ITEMS_MAX
        yield TokenChunk(ids[at:end], logprobs=scores[at:end])
    yield replace(chunk, ids=ids[last:], logprobs=scores[last:])


def _text_slices(chunk: TextChunk) -> Iterator[TextChunk]:
    """All log probabilities come before the text of their tokens."""
    text, scores = chunk.text, chunk.logprobs
    for at in range(0, len(scores), ENGINE_SLICE_ITEMS_MAX):
        yield TextChunk(logprobs=scores[at : at + ENGINE_SLICE_ITEMS_MAX])
    last = _last_start(len(text), ENGINE_SLICE_CHARS_MAX)
    for at in range(0, last, ENGINE_SLICE_CHARS_MAX):
        yield TextChunk(text[at : at + ENGINE_SLICE_CHARS_MAX])
    yield replace(chunk, text=text[last:], logprobs=())


def _segment_slices(chunk: ChatChunk) -> Iterator[ChatChunk]:
    slice_, work = list[Segment](), 0.0
    for piece in (piece for segment in chunk.segments for piece in _cut(segment)):
        work += _segment_work(piece)
        if slice_ and work > 1:
            yield ChatChunk(slice_)
            slice_, work = [], _segment_work(piece)
        slice_.append(piece)
    yield replace(chunk, segments=slice_)


def _cut(segment: Segment) -> Iterator[Segment]:
    """Cuts a segment with a long text into several of its kind. A text with its tokens stays whole."""
    if not isinstance(segment, _LONG) or len(segment.text) <= ENGINE_SLICE_CHARS_MAX:
        yield segment
        return
    for at in range(0, len(segment.text), ENGINE_SLICE_CHARS_MAX):
        yield type(segment)(segment.text[at : at + ENGINE_SLICE_CHARS_MAX])


def _last_start(length: int, slice_length: int) -> int:
    """Where the last slice of a sequence begins."""
    return (length - 1) // slice_length * slice_length if length else 0


def _work(chunk: EngineChunk) -> float:
    """The work of a chunk, in slices."""
    match chunk:
        case TokenChunk():
            return max(len(chunk.ids), len(chunk.logprobs)) / ENGINE_SLICE_ITEMS_MAX
        case TextChunk():
            return len(chunk.logprobs) / ENGINE_SLICE_ITEMS_MAX + len(chunk.text) / ENGINE_SLICE_CHARS_MAX
        case ChatChunk():
            return sum(map(_segment_work, chunk.segments))


def _segment_work(segment: Segment) -> float:
    chars = len(segment.text) if isinstance(segment, _LONG) else 0
    return 1 / ENGINE_SLICE_ITEMS_MAX + chars / ENGINE_SLICE_CHARS_MAX
