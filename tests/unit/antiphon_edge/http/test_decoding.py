from __future__ import annotations

import asyncio
import gzip
import threading
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from antiphon_core import offload
from antiphon_edge.http import decoding
from antiphon_edge.http.decoding import INLINE_BYTES_MAX, PIECE_BYTES, Decoding
from antiphon_edge.http.encodings import BodyDecoder, Step, Steps, decoder_of

TEXT = b"a text that repeats. " * 100_000
Threads = list[tuple[int, threading.Thread]]


class Watched:
    """A decoder that notes the size of each piece, and the thread that decoded it."""

    def __init__(self, inner: BodyDecoder, noted: Threads) -> None:
        self._inner, self._noted = inner, noted

    def feed(self, data: bytes) -> Steps:
        steps = self._inner.feed(data)
        step = next(steps, None)
        while step is not None:
            piece = yield self._noting(step)
            step = decoding._step_after(steps, piece)

    def end(self) -> None:
        self._inner.end()

    def _noting(self, step: Step) -> Step:
        def noted(most: int) -> bytes:
            piece = step(most)
            self._noted.append((len(piece), threading.current_thread()))
            return piece

        return noted


def decoder(encoding: str) -> BodyDecoder:
    request = make_mocked_request("POST", "/", headers={"Content-Encoding": encoding})
    found = decoder_of(request, lambda _: None)
    assert found is not None
    return found


async def decoded(data: bytes, encoding: str = "deflate", tenant: str = "acme") -> tuple[bytes, Threads]:
    noted, body = Threads(), bytearray()
    under_test = Decoding(Watched(decoder(encoding), noted), tenant)
    await under_test.feed(data, body.extend)
    under_test.end()
    return bytes(body), noted


async def test_only_the_beginning_of_a_large_body_is_decoded_on_the_event_loop() -> None:
    body, noted = await decoded(zlib.compress(TEXT))
    here = threading.current_thread()
    assert body == TEXT
    assert sum(size for size, thread in noted if thread is here) == INLINE_BYTES_MAX
    assert max(size for size, _ in noted) <= PIECE_BYTES


async def test_small_body_is_decoded_on_the_event_loop() -> None:
    _, noted = await decoded(zlib.compress(TEXT[:INLINE_BYTES_MAX]))
    assert {thread for _, thread in noted} == {threading.current_thread()}


async def test_each_member_of_a_small_body_is_decoded_in_an_iteration_of_its_own() -> None:
    iterations, members = 0, 500

    async def count() -> None:
        nonlocal iterations
        while True:
            await asyncio.sleep(0)
            iterations += 1

    counting = asyncio.create_task(count())
    body, _ = await decoded(gzip.compress(b"x") * members, "gzip")
    counting.cancel()
    assert body == b"x" * members
    assert iterations >= members - 1


async def test_one_piece_of_each_tenant_waits_for_a_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten bodies of one tenant do not queue before the body of another."""
    waiting = Counter[str]()
    most = Counter[str]()

    async def run(work: Callable[[], bytes], **_: Any) -> bytes:
        tenant = str(asyncio.current_task().get_name())  # type: ignore[union-attr]
        waiting[tenant] += 1
        most[tenant] = max(most[tenant], waiting[tenant])
        await asyncio.sleep(0)
        waiting[tenant] -= 1
        return work()

    monkeypatch.setattr(offload, "run", run)
    packed = zlib.compress(TEXT)
    tasks = [
        asyncio.create_task(decoded(packed, tenant=tenant), name=tenant) for tenant in ["many"] * 10 + ["one", "other"]
    ]
    bodies = [body for body, _ in await asyncio.gather(*tasks)]
    assert bodies == [TEXT] * 12
    assert most == {"many": 1, "one": 1, "other": 1}
    del tasks
    assert not decoding._turns


async def test_a_piece_that_is_rejected_ends_the_decoding() -> None:
    received = list[bytes]()

    def reject(piece: bytes) -> None:
        received.append(piece)
        raise MemoryError

    with pytest.raises(MemoryError):
        await Decoding(decoder("deflate"), "acme").feed(zlib.compress(TEXT), reject)
    assert len(received) == 1


async def test_data_in_another_encoding_is_an_error_in_either_thread() -> None:
    packed = zlib.compress(TEXT, level=0)
    broken = packed[: len(packed) // 2] + b"x" * 100_000
    for data in (b"\xff" * 9, broken):
        with pytest.raises(ValueError, match="not in its encoding"):
            await decoded(data)
