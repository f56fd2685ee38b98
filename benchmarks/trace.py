"""Counts the files, functions and calls of Antiphon's own code that requests execute: `make trace`.

Everything runs in one process, with a scripted model and the store in memory; a request of the same kind before the
one that is counted warms everything up. A delta is what runs between two tokens of the model. A commit is `CommitTurn`
of a turn of a session, from its request to its answer.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median_low
from types import FrameType
from typing import Any, NamedTuple, cast

import aiohttp

from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.store import Record, Status, TurnCommit, TurnRequest
from antiphon_core.rpc.server import Call
from antiphon_edge.turns.turn_starter import session_tree
from antiphon_store.backends.registry import row_backend
from antiphon_store.calls import OPERATIONS
from antiphon_store.server import handlers
from antiphon_store.service import StoreService
from antiphon_translator.engines import triton_detect
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.models.profiles import ModelProfile
from tests.support.engine_plays import Ending
from tests.support.fake_triton import fake_triton, token_response
from tests.support.in_process import running
from tests.support.scripted_system import MODEL, TOKENIZER, scripted_models
from tests.support.small_vocabulary import ids_of

ROOTS = ("/services/", "/libs/")
POLL_S = 0.05
TOKEN = "SlicedDelivery.take"
"""The function that gets each message of an engine."""
TRANSLATOR = "TranslatorService.generate"


class Called(NamedTuple):
    file: str
    function: str
    depth: int


class Trace:
    """The calls while it is on, in their order."""

    def __init__(self) -> None:
        self.calls: list[Called] = []

    @contextmanager
    def on(self) -> Iterator[None]:
        sys.setprofile(self._note)
        threading.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and any(root in file for root in ROOTS):
            self.calls.append(Called(file, frame.f_code.co_qualname, _own_depth(frame)))

    def part(self, start: int = 0, end: int | None = None) -> Row:
        calls = self.calls[start:end]
        return Row(
            files=len({call.file for call in calls}),
            functions=len({call[:2] for call in calls}),
            calls=len(calls),
            depth=max((call.depth for call in calls), default=0),
        )

    def index_of(self, function: str) -> int:
        return next(index for index, call in enumerate(self.calls) if call.function == function)

    def on_read(self, function: str) -> Sequence[Called]:
        """All calls of the read of a socket in which `function` was called for the third time."""
        third = [index for index, call in enumerate(self.calls) if call.function == function][2]
        start = next(index for index in range(third, -1, -1) if self.calls[index].depth == 1)
        ends = (index for index in range(third, len(self.calls)) if self.calls[index].depth == 1)
        return self.calls[start : next(ends, None)]

    def delta(self) -> Row:
        """The calls between two tokens. The first tokens and the last ones do more."""
        tokens = [index for index, call in enumerate(self.calls) if call.function == TOKEN]
        between = [self.part(start, end) for start, end in pairwise(tokens[1:-1])]
        return median_low(between)


class Row(NamedTuple):
    files: int
    functions: int
    calls: int
    depth: int


def _own_depth(frame: FrameType) -> int:
    """How many frames of Antiphon's code are on the stack."""
    depth, at = 0, cast("FrameType | None", frame)
    while at is not None:
        depth += any(root in at.f_code.co_filename for root in ROOTS)
        at = at.f_back
    return depth


Then = Callable[[aiohttp.ClientSession, str, bytes], Awaitable[None]]


async def _request(body: Object, *, is_keyed: bool = False, then: Then | None = None) -> Trace:
    trace = Trace()
    workers = 1 if body.get("background") else 0  # an idle worker polls the store now and then
    async with running(*scripted_models(), workers=workers) as system, aiohttp.ClientSession() as session:
        url = system.url + "/v1/responses"

        async def ask(text: str, key: str) -> None:
            headers = {"Idempotency-Key": key} if is_keyed else None
            async with session.post(url, json={"model": MODEL, "input": text} | body, headers=headers) as answer:
                read = await answer.read()
            if then is not None:
                await then(session, url, read)

        await ask("warm", "first")
        await asyncio.sleep(4 * POLL_S)
        with trace.on():
            await ask("hello", "second")
    return trace


async def _poll(session: aiohttp.ClientSession, url: str, created: bytes) -> None:
    status = "queued"
    while status in ("queued", "in_progress"):
        await asyncio.sleep(POLL_S)
        async with session.get(f"{url}/{loads(created)['id']}") as answer:
            status = (await answer.json())["status"]


@asynccontextmanager
async def _store() -> AsyncIterator[StoreService]:
    backend = row_backend("memory://")
    await backend.open()
    try:
        yield StoreService(backend)
    finally:
        await backend.close()


async def _commit() -> Trace:
    ids, traces = RandomIds(), [Trace(), Trace()]  # the first one warms up
    operation = OPERATIONS["CommitTurn"]
    async with _store() as store:
        serve: Any = handlers(store)["CommitTurn"]
        for trace in traces:
            response_id = new_response_id(ids, tag=await session_tree(store, "t", "s"))
            asked = TurnRequest(session_id="s", holder="h", response_id=response_id)
            start = await store.begin_turn("t", asked)
            assert start.lease is not None
            parent, record_id = start.history.head_id, str(asked.response_id)
            record = Record(record_id, Status.COMPLETED, b"{}", b"[]", b"[]", parent_id=parent, session_id="s")
            request = operation.request({"commit": TurnCommit(record, fence=start.lease.fence)})
            with trace.on():
                await serve(request, Call(tenant="t", time_remaining_s=None))
    return traces[-1]


async def delta_from_triton() -> Sequence[Called]:
    """The calls for one token, from the read of Triton's socket to the write to the client's."""
    trace = Trace()
    async with fake_triton() as triton, aiohttp.ClientSession() as session:
        ids = ids_of(TOKENIZER, "heeey")  # the third one was met before
        triton.script = [*(step for each in ids for step in (POLL_S, token_response([each]))), Ending.BY_ITSELF]
        profile = ModelProfile(name=MODEL, directory=Path(), endpoint=triton.endpoint)
        served_model = scripted_models(keeps=False)[0][0]
        async with running((served_model, triton_detect.engine(profile, TritonChannels("lean")))) as system:
            url, body = system.url + "/v1/responses", {"model": MODEL, "input": "hello", "stream": True}
            with trace.on():
                async with session.post(url, json=body) as answer:
                    await answer.read()
    return trace.on_read(TOKEN)


async def rows() -> Sequence[tuple[str, Row]]:
    plain = await _request({"stream": True})
    keyed = await _request({"stream": True}, is_keyed=True)
    background = await _request({"background": True}, then=_poll)
    rejected = await _request({"temperature": 9})
    return [
        ("plain stream", plain.part()),
        ("before the translator", plain.part(end=plain.index_of(TRANSLATOR))),
        ("with a key", keyed.part()),
        ("background, create to poll", background.part()),
        ("one delta", plain.delta()),
        ("rejected", rejected.part()),
        ("CommitTurn on memory", (await _commit()).part()),
    ]


async def main() -> None:
    print(f"{'':28}{'files':>8}{'functions':>11}{'calls':>8}{'frames':>8}")
    for name, row in await rows():
        print(f"{name:28}{row.files:>8}{row.functions:>11}{row.calls:>8}{row.depth:>8}")


if __name__ == "__main__":
    asyncio.run(main())
