"""Decodes the encoded bodies of requests: small ones on the event loop, larger ones in a thread, a piece at a time.

Kilobytes can expand to megabytes, and a tenant can send many such bodies at once. On the event loop, each iteration
decoded a piece of every body, and the requests of others waited for all of them. In a thread, the libraries decode
without the GIL. Only one piece of each tenant is decoded or waits for a thread at a time, so that a piece waits for at
most one piece of each other tenant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from weakref import WeakValueDictionary

from antiphon_core import offload
from antiphon_edge.http.encodings import BodyDecoder, Step, Steps

INLINE_BYTES_MAX = 64 * 2**10
"""The first bytes of a body, as decoded, that are decoded on the event loop, in 0.2 ms. Most bodies have no more."""
PIECE_BYTES = 256 * 2**10
"""How much is decoded at a time in a thread: the largest medium work (offload.py), which waits for no large JSON."""


class Decoding:
    """The decoding of one body."""

    def __init__(self, decoder: BodyDecoder, tenant: str) -> None:
        self._decoder = decoder
        self._turn = _turn_of(tenant)
        self._inline_left = INLINE_BYTES_MAX

    async def feed(self, data: bytes, receive: Callable[[bytes], None]) -> None:
        """Decodes more of the body, and gives `receive` each piece before the next one is decoded.

        ValueError: the data is not in its encoding. What `receive` raises ends the decoding."""
        steps = self._decoder.feed(data)
        step = next(steps, None)
        while step is not None:
            piece = await self._run(step)
            if piece:
                receive(piece)
            step = _step_after(steps, piece)

    def end(self) -> None:
        """Checks that the body is complete. ValueError: it is not."""
        self._decoder.end()

    async def _run(self, step: Step) -> bytes:
        if self._inline_left:
            piece = step(self._inline_left)
            self._inline_left -= min(len(piece), self._inline_left)
            await asyncio.sleep(0)  # a body can have a thousand members with a byte each
            return piece
        async with self._turn:
            return await offload.run(partial(step, PIECE_BYTES), size_bytes=PIECE_BYTES)


def _step_after(steps: Steps, piece: bytes) -> Step | None:
    try:
        return steps.send(piece)
    except StopIteration:
        return None


_turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
"""For each tenant whose bodies are being decoded, the lock of its one piece."""


def _turn_of(tenant: str) -> asyncio.Lock:
    return _turns.setdefault(tenant, asyncio.Lock())
