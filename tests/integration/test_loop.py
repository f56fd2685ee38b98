"""No callback blocks the event loop for long, however large and however odd the requests in flight are.

The bound is on CPU time of the loop's thread in a single callback, so a busy machine changes nothing. Callbacks take up
to 20 ms, and took 30 to 1,100 ms before the work left the loop (docs/adr/0056-nothing-stops-the-loop.md).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from io import BytesIO
from itertools import cycle, islice
from typing import Any

import pytest

from antiphon_core.flow import Flow
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.limits import BODY_BYTES_MAX, JSON_VALUES_MAX
from antiphon_translator.engines.base import Deliver
from antiphon_translator.generation import FinishReason, GenerationRequest, Level, ReportedUsage, TextChunk, TokenChunk
from tests.support import loop_watch
from tests.support.http import Http
from tests.support.images import png
from tests.support.loop_watch import LoopWatch, watched_loop
from tests.support.scripted_system import MODEL, SEER, TOKENIZER, ScriptedModel, scripted_system
from tests.support.volume import volume

CALLBACK_CPU_S_MAX = 0.05
"""The bound for requests of BODY_BYTES_MAX. The bound is proportional to the size, like the work that must not be in a
callback."""
MB = 1_000_000
CHAIN = volume(300, 900)
"""Responses before one turn; 1,000 are the most."""
HISTORY_BYTES = volume(6, 18) * MB
ADDITION_BYTES = 4 * MB
"""For additions of 2 MB with 90,000 values: the loop stood still for 73 ms when they were read in it."""
LARGE_BYTES = volume(4 * 2**20, BODY_BYTES_MAX)
"""The size of requests whose content other tests send at the limit."""


async def greet(model: ScriptedModel, _request: GenerationRequest, deliver: Deliver, _flow: Flow) -> None:
    """Answers without reading the prompt, which would take as long as the work under test."""
    if model.level is Level.TOKENS:
        deliver([TokenChunk(tuple(TOKENIZER.encode("Hello."))), TokenChunk(finish=FinishReason.STOP)])
    else:
        deliver([TextChunk("Hello."), TextChunk(finish=FinishReason.STOP, usage=ReportedUsage(1, 1))])


@pytest.fixture
async def http(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Http]:
    monkeypatch.setattr(ScriptedModel, "generate", greet)
    async with scripted_system(context_length=4 * BODY_BYTES_MAX) as system:
        await system.http.post("/v1/responses", {"model": MODEL, "input": "hi"})  # imports, routes, caches
        yield system.http


def request_of(**members: Any) -> bytes:
    return dumps({"model": MODEL, "input": "hi"} | members)


def messages(size_bytes: int) -> list[Object]:
    text, count = "x " * (BODY_BYTES_MAX // 8_000 - 30), 3_999 * size_bytes // BODY_BYTES_MAX
    return [{"role": role, "content": text} for role in islice(cycle(("user", "assistant")), count)]


def tools(size_bytes: int) -> list[Object]:
    properties = {f"p{n}": {"type": "string", "description": "x" * 400} for n in range(size_bytes // 200_000)}
    parameters = {"type": "object", "properties": properties}
    return [{"type": "function", "name": f"f{n}", "parameters": parameters} for n in range(400)]


def schema(size_bytes: int) -> Object:
    words = ["x" * 60] * (size_bytes // 63 - 20)
    return {"type": "json_schema", "name": "s", "schema": {"enum": words}}


def picture(size_bytes: int) -> list[Object]:
    content = png() + bytes(size_bytes * 3 // 4 - 1_000)
    url = "data:image/png;base64," + base64.b64encode(content).decode()
    return [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]


def text(size_bytes: int) -> str:
    return "say hi. " * (size_bytes // 8 - 50)


CONTENTS: dict[str, Callable[[int], bytes]] = {
    "text": lambda size: request_of(input=text(size)),
    "line breaks": lambda size: request_of(input="\n" * (size // 2 - 500)),
    "messages": lambda size: request_of(input=messages(size)),
    "tools": lambda size: request_of(tools=tools(size)),
    "schema": lambda size: request_of(text={"format": schema(size)}),
    "image": lambda size: request_of(model=SEER, input=picture(size)),
}
"""Make requests of about a size, by kind of content."""
COMPACTION: Object = {"type": "compaction", "compact_threshold": 1_000}
TREATMENTS: dict[str, Callable[[int], bytes]] = {
    "instructions": lambda size: request_of(instructions=text(size), stream=True),
    "not stored": lambda size: request_of(input=text(size), store=False, include=["reasoning.encrypted_content"]),
    "in the background": lambda size: request_of(input=text(size), background=True),
    "compacted": lambda size: request_of(input=messages(size), context_management=[COMPACTION]),
}
"""Make requests of about a size, by kind of processing."""
SENT = CONTENTS | TREATMENTS
AT_THE_LIMIT = volume(["messages"], list(CONTENTS))
"""The other kinds of content have LARGE_BYTES by day, and a bound that is as much shorter."""


async def require_short_callbacks(work: Callable[[], Awaitable[None]], size_bytes: int = BODY_BYTES_MAX) -> None:
    """Runs `work` with requests of this size, and retries when a callback took long."""
    await loop_watch.require_short_callbacks(work, max_s=CALLBACK_CPU_S_MAX * size_bytes / BODY_BYTES_MAX)


async def send(http: Http, body: bytes, path: str = "/v1/responses") -> int:
    return (await http.post(path, BytesIO(body))).status


@pytest.mark.parametrize("name", AT_THE_LIMIT)
async def test_a_request_at_the_limit_does_not_block_the_event_loop(http: Http, name: str) -> None:
    body = CONTENTS[name](BODY_BYTES_MAX)

    async def work() -> None:
        assert await send(http, body) in (200, 400)

    assert len(body) <= BODY_BYTES_MAX
    await require_short_callbacks(work)


@pytest.mark.parametrize("name", sorted(SENT.keys() - AT_THE_LIMIT))
async def test_a_large_request_does_not_block_the_event_loop(http: Http, name: str) -> None:
    body = SENT[name](LARGE_BYTES)

    async def work() -> None:
        assert await send(http, body) in (200, 400)

    await require_short_callbacks(work, LARGE_BYTES)


async def test_twenty_concurrent_large_requests_do_not_block_the_event_loop(http: Http) -> None:
    bodies = [make(MB) for make in islice(cycle(SENT.values()), 20)]

    async def work() -> None:
        assert set(await asyncio.gather(*(send(http, body) for body in bodies))) <= {200, 400}

    await require_short_callbacks(work)


@pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/v1/responses/compact", "/v1/chat/completions"])
async def test_other_routes_do_not_block_the_event_loop(http: Http, path: str) -> None:
    member = "messages" if path.endswith("completions") else "input"
    body = dumps({"model": MODEL, member: messages(LARGE_BYTES)})

    async def work() -> None:
        assert await send(http, body, path) in (200, 400)

    await require_short_callbacks(work, LARGE_BYTES)


async def test_large_conversations_do_not_block_the_event_loop(http: Http) -> None:
    message = {"role": "user", "content": [{"type": "input_text", "text": "x" * 30}] * 1_500}

    async def work() -> None:
        made = await http.post("/v1/conversations", {"items": [message]})
        path = f"/v1/conversations/{made.json['id']}/items"
        for _ in range(5):
            assert await send(http, dumps({"items": [message] * 20}), path) == 200
        listed = await http.get(path + "?limit=100")
        assert len(listed.json["data"]) == 100

    await require_short_callbacks(work, ADDITION_BYTES)


async def test_turns_behind_a_long_history_do_not_block_the_event_loop(http: Http) -> None:
    """A chain of many responses and a conversation of many bytes, read and rendered for one small turn."""
    previous: Object = {}
    for _ in range(CHAIN):
        previous = {"previous_response_id": (await http.create(model=MODEL, input="hi", **previous)).json["id"]}
    made = await http.post("/v1/conversations", {})
    items = [{"role": "user", "content": "word " * 10_000}] * 20
    for _ in range(HISTORY_BYTES // MB):
        assert (await http.post(f"/v1/conversations/{made.json['id']}/items", {"items": items})).status == 200

    async def work() -> None:
        for continued in (previous, {"conversation": made.json["id"]}):
            assert (await http.create(model=MODEL, input="hi", **continued)).status == 200

    await require_short_callbacks(work, HISTORY_BYTES)


async def test_a_large_websocket_message_does_not_block_the_event_loop(http: Http) -> None:
    message = request_of(input=messages(LARGE_BYTES), type="response.create").decode()

    async def work() -> None:
        async with http.session.ws_connect(http.url + "/v1/responses", max_msg_size=0) as socket:
            await socket.send_str(message)
            told = loads((await socket.receive()).data)
        assert told["type"] in ("error", "response.created")

    await require_short_callbacks(work, LARGE_BYTES)


async def test_the_loop_watch_names_the_task_that_blocks() -> None:
    async def dawdle(watch: LoopWatch) -> None:
        for _ in range(30_000):
            str([1])
        while "dawdle" not in watch.stack_now():  # the sampling thread may wait for a processor
            str([1])

    with watched_loop(least_s=0.001) as watch:
        await asyncio.create_task(dawdle(watch), name="the culprit")
    assert "the culprit" in str(watch.longest) or "dawdle" in str(watch.longest)
    assert watch.callbacks > 0


async def test_requests_with_too_many_values_are_refused(http: Http) -> None:
    body = request_of(client_metadata={"a": [[]] * (JSON_VALUES_MAX + 1)})
    answer = await http.post("/v1/responses", BytesIO(body))
    assert answer.status == 400
    assert "more than 200000 values" in answer.error["message"]
