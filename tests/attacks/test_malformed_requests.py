"""Thousands of malformed requests of every route and method. Each is rejected as its caller's mistake: no 5xx, no
INTERNAL, no traceback, and the memory of the process does not grow. `make nightly` sends the full number."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from random import SystemRandom
from typing import Any, TypeVar

import grpc
import pytest
from yarl import URL

from antiphon_core.rpc.intake import BUSY
from tests.support.malformed.grpc_messages import Message, malformed_messages
from tests.support.malformed.http_requests import Request, malformed_requests
from tests.support.malformed.system import MalformedTarget, malformed_target
from tests.support.volume import volume
from tests.support.waiting import PAUSE_S, WAIT_MAX_S

COUNT = volume(1_000, 20_000)
SEED = volume(17, SystemRandom().randrange(2**32))
AT_ONCE = 16
WAIT_S = 0.3
"""The timeout of a call that may never end by itself."""
GROWTH_BYTES_MAX = 32 * 2**20
"""The permitted growth of the process from the end of the first quarter to the end of the last. A kilobyte kept for
each request would be 15 MiB, and the whole request ten times as much; pools and caches fill up once."""
FAULTS = frozenset({"INTERNAL", "UNKNOWN", "DATA_LOSS", "UNAVAILABLE"})

Case = TypeVar("Case")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MalformedTarget]:
    with malformed_target(tmp_path_factory.mktemp("malformed")) as running:
        yield running


@pytest.mark.timeout(1_800)
async def test_malformed_http_requests_cause_no_server_error(target: MalformedTarget) -> None:
    statuses = Counter[int]()

    async def send(request: Request) -> str:
        answer = await exchange(target.url, request)
        statuses[answer.status] += 1
        is_wrong = answer.is_fault or answer.can_be_sniffed
        return repr((answer, request.data[:3_000])) if is_wrong else ""

    await survives(target, malformed_requests(SEED, target.ids), send)
    print(f"seed {SEED}:", dict(sorted(statuses.items())))
    assert {400, 404, 405, 413, 415, 417, 431} <= statuses.keys()


@pytest.mark.timeout(1_800)
async def test_malformed_grpc_messages_cause_no_server_error(target: MalformedTarget) -> None:
    texts = ["t", "m", "q", "h", "msg_1", *target.ids["responses"], *target.ids["conversations"]]
    codes = Counter[str]()
    async with grpc.aio.insecure_channel(target.rpc) as channel:

        async def send(message: Message) -> str:
            code, details = await called(channel, message)
            codes[code] += 1
            is_fault = code in FAULTS or (code == "DEADLINE_EXCEEDED" and not message.waits)
            return f"{code} {details} {message}" if is_fault else ""

        await survives(target, malformed_messages(SEED, texts), send)
    print(f"seed {SEED}:", dict(codes))
    assert codes["INVALID_ARGUMENT"] > COUNT // 3
    assert codes["OK"] > COUNT // 50  # some messages are odd but valid


async def survives(target: MalformedTarget, cases: Iterator[Case], send: Callable[[Case], Awaitable[str]]) -> None:
    """Sends COUNT cases with `send`, which returns the server's fault, or "". Requires that there are no faults, that
    the process logs none, and that it does not grow."""
    taken, faults, sizes = islice(cases, COUNT), list[str](), list[int]()
    for _ in range(4):
        faults += await in_parallel(islice(taken, COUNT // 4), send)
        sizes.append(target.rss_bytes())
    print("MiB after each quarter:", [size // 2**20 for size in sizes])
    assert faults == []
    assert target.faults() == []
    assert sizes[-1] - sizes[0] < GROWTH_BYTES_MAX


async def in_parallel(cases: Iterator[Case], send: Callable[[Case], Awaitable[str]]) -> list[str]:
    """Runs `send` for every case, AT_ONCE at a time. Returns the faults."""

    async def work() -> list[str]:
        return [fault for case in cases if (fault := await send(case))]

    return [fault for faults in await asyncio.gather(*(work() for _ in range(AT_ONCE))) for fault in faults]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, perhaps incomplete. `status` is 0 if the connection ended without an answer."""

    status: int
    data: bytes

    @property
    def is_fault(self) -> bool:
        return 500 <= self.status < 600 or b'"code":"server_error"' in self.data

    @property
    def can_be_sniffed(self) -> bool:
        """Whether a browser may guess the type of the answer, which quotes what the caller wrote."""
        return bool(self.status) and b"\r\nX-Content-Type-Options: nosniff\r\n" not in self.data


async def exchange(url: str, request: Request) -> Answer:
    """Sends a request and reads its answer to the end."""
    address = URL(url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    data = b""
    with suppress(ConnectionError):
        async with asyncio.timeout(WAIT_MAX_S):
            writer.write(request.data)
            await writer.drain()
            if not request.hangs_up:
                data = await whole_answer(reader)
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    words = data.split(b" ", 2)
    return Answer(int(words[1]) if len(words) > 1 else 0, data)


async def whole_answer(reader: asyncio.StreamReader) -> bytes:
    """Reads until the answer or the connection ends."""
    answer = b""
    while piece := await reader.read(65_536):
        answer += piece
        head, separator, body = answer.partition(b"\r\n\r\n")
        if separator and head[:10] != b"HTTP/1.1 1" and is_whole(head.lower(), body):
            break
    return answer


def is_whole(head: bytes, body: bytes) -> bool:
    if b"transfer-encoding: chunked" in head:
        return body.endswith(b"0\r\n\r\n")
    length = head.partition(b"content-length:")[2].partition(b"\r\n")[0].strip()
    return length.isdigit() and len(body) >= int(length)


async def called(channel: grpc.aio.Channel, message: Message) -> tuple[str, str]:
    """Calls a method of any kind. Returns its status and details. A call is repeated while the server is busy: on a
    machine without a free processor, requests arrive slowly, and slow ones count as large."""
    async with asyncio.timeout(WAIT_MAX_S):
        while (answer := await called_once(channel, message)) == ("UNAVAILABLE", BUSY):
            await asyncio.sleep(PAUSE_S)
    return answer


async def called_once(channel: grpc.aio.Channel, message: Message) -> tuple[str, str]:
    method: Any = channel.unary_stream(message.path)  # sends its headers and its request together
    call = method(message.data, metadata=message.metadata, timeout=WAIT_S if message.waits else WAIT_MAX_S)
    try:
        while await call.read() is not grpc.aio.EOF:
            pass
        return "OK", ""
    except grpc.aio.AioRpcError as error:
        return error.code().name, error.details() or ""
