"""Large messages of an engine, processed in slices, so that other turns run in between.

A message within the limits is passed on at once, by the plain call that it came with. One of 1 MB of openers of calls
kept the event loop for 5 s, one with the log probabilities of 80,000 tokens for 28 s: such a message is cut, one slice
is processed in each iteration of the loop, and until the last of them the flow is paused, so that nothing more is read
from the engine.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from antiphon_core.flow import Flow
from antiphon_core.limits import ENGINE_SLICE_CHARS_MAX, ENGINE_SLICE_ITEMS_MAX
from antiphon_translator.engines.base import Deliver
from antiphon_translator.generation import ChatChunk, EngineChunk, TextChunk, TokenChunk


class SlicedDelivery:
    """Stands before `deliver` during one generation; `take` is what the engine calls. Use inside one event loop.

    Calls of `deliver` keep the order in which chunks came, and are never nested."""

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
        """Around the engine's generation. Ends it as soon as a slice says that nothing more is wanted, and waits for
        the slices of a generation that has ended or failed.

        Raises what `deliver` raised for a slice, and what the generation raised."""
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
        """Passes chunks on, now or slice by slice. Whether more are wanted, as far as is known."""
        if self._has_enough:
            return False
        if not self._waiting and _are_small(chunks):
            return self._deliver(chunks)
        was_idle = not self._waiting
        self._waiting.extend(part for chunk in chunks for part in slices(chunk))
        if was_idle:
            self._flow.pause(self)
            self._drained.clear()
            asyncio.get_running_loop().call_soon(self._step)
        return True

    def _step(self) -> None:
        """Passes one slice on."""
        if not self._waiting:  # the generation was cancelled
            self._drained.set()
            return
        try:
            self._has_enough = not self._deliver(self._next())
        except Exception as error:  # noqa: BLE001 - raised where the generation runs
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
        """As many of the chunks that wait as make one slice of work."""
        taken = [self._waiting.popleft()]
        work = _work(taken[0])
        while self._waiting and (work := work + _work(self._waiting[0])) <= 1:
            taken.append(self._waiting.popleft())
        return taken


def slices(chunk: EngineChunk) -> Iterator[EngineChunk]:
    """The parts of a chunk, in order. How it ended, and what was counted, comes with the last."""
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
    last = _last_start(len(chunk.segments), ENGINE_SLICE_ITEMS_MAX)
    for at in range(0, last, ENGINE_SLICE_ITEMS_MAX):
        yield ChatChunk(chunk.segments[at : at + ENGINE_SLICE_ITEMS_MAX])
    yield replace(chunk, segments=chunk.segments[last:])


def _last_start(length: int, slice_length: int) -> int:
    """Where the last slice of a sequence begins."""
    return (length - 1) // slice_length * slice_length if length else 0


def _are_small(chunks: Sequence[EngineChunk]) -> bool:
    """Whether all of these together may be processed at once. Nearly all reads bring one chunk of a few tokens."""
    if len(chunks) == 1:
        one = chunks[0]
        if type(one) is TokenChunk and len(one.ids) + len(one.logprobs) <= ENGINE_SLICE_ITEMS_MAX:
            return True
    return sum(map(_work, chunks)) <= 1


def _work(chunk: EngineChunk) -> float:
    """How many slices of work a chunk is."""
    match chunk:
        case TokenChunk():
            return max(len(chunk.ids), len(chunk.logprobs)) / ENGINE_SLICE_ITEMS_MAX
        case TextChunk():
            return len(chunk.logprobs) / ENGINE_SLICE_ITEMS_MAX + len(chunk.text) / ENGINE_SLICE_CHARS_MAX
        case ChatChunk():
            return len(chunk.segments) / ENGINE_SLICE_ITEMS_MAX
