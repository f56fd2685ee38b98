"""Attack 22: engines, and hosts of URLs, that send without an end. A turn on them ends after a bounded number of bytes,
and other turns run meanwhile: at least once for each slice of the flood."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, cast

import pytest

from antiphon_core.errors import AntiphonError, EngineFault, EngineMisconfigured
from antiphon_core.flow import Flow
from antiphon_core.limits import (
    ENGINE_EVENT_ITEMS_MAX,
    ENGINE_IDLE_BYTES_MAX,
    ENGINE_SLICE_BYTES_MAX,
    HTTP_HEADS_BYTES_MAX,
    HTTP_INTERIM_ITEMS_MAX,
    MEDIA_BYTES_MAX,
    OUTPUT_ITEMS_MAX,
)
from antiphon_translator.engines import stream_budget, triton_tokens
from antiphon_translator.engines.chat_stream import ChunkReader
from antiphon_translator.engines.http_streams import EventReader, HttpModelServer
from antiphon_translator.engines.stream_budget import StreamBudget
from antiphon_translator.engines.triton_channels import Transport, TritonChannels
from antiphon_translator.engines.vllm_wire import TokensReader
from antiphon_translator.generation import ChatChunk, EngineChunk, FinishReason, GenerationRequest, TokenPrompt
from antiphon_translator.media.downloads import Failure
from antiphon_translator.media.fetching import Fetcher, FetchRules
from antiphon_translator.models.profiles import ModelProfile
from tests.support.fake_triton import fake_triton, response, token_response
from tests.support.flooding_engine import STREAM_HEAD, Flood, endless, flooding
from tests.support.unread import NotedParts
from tests.support.waiting import WAIT_MAX_S, until

IDLE_BYTES_MAX = 2**20
NETWORK_BYTES = 16 * 2**20
"""The size of the buffers of two sockets and their clients, beside the bytes that were counted."""
READERS: dict[str, Callable[[], EventReader]] = {
    "chat": lambda: ChunkReader(NotedParts()),
    "token ids": lambda: TokensReader(GenerationRequest("r", TokenPrompt((1,)), max_tokens=10), NotedParts()),
}


def chunk(**delta: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


IDLE = {
    "comments": b":\n",
    "pings": b": ping\n\n",
    "blank lines": b"\n",
    "carriage returns": b"\r",
    "fields": b"event: x\nid: 1\nretry: 1\n",
    "no choices": b'data: {"choices": []}\n\n',
    "other choices": b'data: {"choices": [{"index": 7, "delta": {"content": "x"}}]}\n\n',
    "usage": b'data: {"choices": [], "usage": {"prompt_tokens": 1}}\n\n',
    "unread": b"data: 1\n\n",
    "empty objects": b"data:{}\n\n",
    "empty deltas": chunk(content=""),
    "roles": chunk(role="assistant"),
    "calls of nothing": chunk(tool_calls=[{"index": 0}]),
    "names of one call": chunk(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f"}}]),
}
IDS_IDLE = ("comments", "no choices")


@dataclass
class Bystander:
    """Another turn, which wants to run in each iteration of the event loop. `most_bytes` are the most bytes of the
    flood that were read between two of its steps."""

    most_bytes: int = 0
    _bytes: int = 0

    async def run(self) -> None:
        while True:
            self._bytes = 0
            await asyncio.sleep(0)

    def note(self, size_bytes: int) -> None:
        self._bytes += size_bytes
        self.most_bytes = max(self.most_bytes, self._bytes)


@pytest.fixture
async def bystander(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bystander]:
    """Runs beside a turn whose engine may send IDLE_BYTES_MAX only, for shorter tests."""
    made, note = Bystander(), StreamBudget.note

    def noted(budget: StreamBudget, size_bytes: int, content_chars: int) -> None:
        made.note(size_bytes)
        note(budget, size_bytes, content_chars)

    monkeypatch.setattr(StreamBudget, "note", noted)
    monkeypatch.setattr(stream_budget, "ENGINE_IDLE_BYTES_MAX", IDLE_BYTES_MAX)
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()


async def generated(
    flood: Flood, reader: EventReader, deliver: Callable[[Iterable[EngineChunk]], bool] = lambda _: True
) -> None:
    """Runs a generation on the server, up to its end or its error."""
    server = HttpModelServer(profile(flood))
    try:
        async with asyncio.timeout(WAIT_MAX_S):
            await server.generate(f"{server.url}/chat/completions", b"{}", reader, deliver, Flow())
    finally:
        await server.close()


def profile(flood: Flood) -> ModelProfile:
    return ModelProfile(name="m", directory=Path(), endpoint=f"{flood.url}/v1", first_token_timeout_s=2 * WAIT_MAX_S)


# ---- Heads ----

HEADS = {
    "interim": (endless(b"HTTP/1.1 100 Continue\r\n\r\n"), f"more than {HTTP_INTERIM_ITEMS_MAX} interim responses"),
    "short": (endless(b"HTTP/1.1 103\r\n\r\n"), f"more than {HTTP_INTERIM_ITEMS_MAX} interim responses"),
    "long": (
        endless(b"HTTP/1.1 103 Early Hints\r\n" + b"Link: %s\r\n" % (b"x" * 8_000) * 20 + b"\r\n"),
        f"heads of more than {HTTP_HEADS_BYTES_MAX // 2**10} KiB",
    ),
}


@pytest.mark.parametrize("kind", HEADS)
async def test_endless_heads_of_an_engine_end_the_turn(kind: str) -> None:
    blocks, reason = HEADS[kind]
    with flooding(b"", blocks) as flood:
        with pytest.raises(EngineFault, match=reason):
            await generated(flood, READERS["chat"]())
        assert flood.sent_bytes < NETWORK_BYTES


@pytest.mark.parametrize("kind", HEADS)
async def test_endless_heads_of_the_host_of_a_url_end_the_fetch(kind: str) -> None:
    blocks, reason = HEADS[kind]
    fetcher = Fetcher(FetchRules(permits=lambda _: True, schemes=("http",), timeout_s=WAIT_MAX_S))
    with flooding(b"", blocks) as flood:
        (found,) = (await fetcher.fetch({flood.url: MEDIA_BYTES_MAX})).values()
        assert isinstance(found, Failure)
        assert reason in found.why
        assert flood.sent_bytes < NETWORK_BYTES
    await fetcher.close()


CHUNKED_HEAD = STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")
FRAMING = {"chunks": (CHUNKED_HEAD, b"1\r\n\n\r\n"), "extension": (CHUNKED_HEAD + b"1;", b"x" * 100)}


@pytest.mark.parametrize("kind", FRAMING)
async def test_endless_framing_of_an_engine_ends_the_turn(kind: str) -> None:
    head, block = FRAMING[kind]
    with flooding(head, endless(block)) as flood:
        with pytest.raises(EngineFault, match="chunks that are too small"):
            await generated(flood, READERS["chat"]())
        assert flood.sent_bytes < NETWORK_BYTES


@pytest.mark.parametrize("kind", FRAMING)
async def test_endless_framing_of_the_host_of_a_url_ends_the_fetch(kind: str) -> None:
    """Eight such fetches took nine tenths of the event loop until their timeout, and other turns waited up to 40 s."""
    head, block = FRAMING[kind]
    fetcher = Fetcher(FetchRules(permits=lambda _: True, schemes=("http",), timeout_s=WAIT_MAX_S))
    with flooding(head, endless(block)) as flood:
        (found,) = (await fetcher.fetch({flood.url: MEDIA_BYTES_MAX})).values()
        assert isinstance(found, Failure)
        assert "chunks that are too small" in found.why
        assert flood.sent_bytes < NETWORK_BYTES
    await fetcher.close()


async def test_a_few_interim_responses_are_read_over() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * HTTP_INTERIM_ITEMS_MAX
    answer = chunk(content="hi") + b"data: [DONE]\n\n"
    head = STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % len(answer))
    reader = READERS["chat"]()
    with flooding(interim + head, lambda: [answer]) as flood:
        await generated(flood, reader)
    assert reader.content_chars


@pytest.mark.parametrize("behind", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
async def test_answers_without_a_request_close_the_connection_that_is_kept(behind: bytes) -> None:
    is_kept = threading.Event()

    def blocks() -> Iterable[bytes]:
        is_kept.wait()
        return endless(behind)()

    models = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    with flooding(models, blocks) as flood:
        server = HttpModelServer(profile(flood))
        await server.models()
        is_kept.set()
        await until(lambda: flood.cut_off == 1, "the connection is closed")
        assert flood.sent_bytes < NETWORK_BYTES
        await server.close()


# ---- Bytes without content ----


@pytest.mark.parametrize(
    ("reader", "block"),
    [*(("chat", block) for block in IDLE.values()), *(("token ids", IDLE[name]) for name in IDS_IDLE)],
    ids=[*IDLE, *(f"{name} in place of ids" for name in IDS_IDLE)],
)
async def test_bytes_without_content_are_bounded_and_other_turns_go_on(
    bystander: Bystander, reader: str, block: bytes
) -> None:
    with flooding(STREAM_HEAD, endless(block)) as flood, pytest.raises(EngineFault, match="without any content"):
        await generated(flood, READERS[reader]())
    assert flood.sent_bytes < IDLE_BYTES_MAX + NETWORK_BYTES
    assert 0 < bystander.most_bytes <= ENGINE_SLICE_BYTES_MAX


async def test_padding_of_content_is_bounded() -> None:
    with flooding(STREAM_HEAD, endless(chunk(content="x", padding="y" * 100_000))) as flood:
        with pytest.raises(EngineFault, match="without any content"):
            await generated(flood, READERS["chat"]())
        assert flood.sent_bytes < 2 * ENGINE_IDLE_BYTES_MAX + NETWORK_BYTES


async def test_other_turns_go_on_while_an_engine_sends_one_character_after_the_other(bystander: Bystander) -> None:
    received: list[EngineChunk] = []

    def deliver(chunks: Iterable[EngineChunk]) -> bool:
        received.extend(chunks)
        return len(received) < 50_000

    with flooding(STREAM_HEAD, endless(chunk(content="x"))) as flood:
        await generated(flood, READERS["chat"](), deliver)
    assert 0 < bystander.most_bytes <= ENGINE_SLICE_BYTES_MAX


@pytest.mark.parametrize("transport", ["lean", "grpc"])
@pytest.mark.parametrize(
    "message",
    [token_response([]), response({"output_ids": [], "sequence_length": [0], "other": "x" * 10_000})],
    ids=["small", "large"],
)
@pytest.mark.usefixtures("bystander")
async def test_messages_of_triton_without_content_are_bounded(transport: Transport, message: Any) -> None:
    async with fake_triton() as fake:
        cast(Any, fake).script = repeat(message)
        long = ModelProfile(name="m", endpoint=fake.endpoint, first_token_timeout_s=2 * WAIT_MAX_S)
        engine = triton_tokens.engine(long, TritonChannels(transport))
        request = GenerationRequest("r", TokenPrompt((1,)), max_tokens=10)
        with pytest.raises(EngineFault, match="without any content"):
            async with asyncio.timeout(WAIT_MAX_S):
                await engine.generate(request, lambda _: True, Flow())
        await engine.close()


# ---- Calls ----


def calls(count: int, *, each: int) -> bytes:
    """Returns events with so many calls, `each` in one event."""
    made = [{"index": at, "id": f"c{at}", "function": {"name": "f", "arguments": "{}"}} for at in range(count)]
    return b"".join(chunk(tool_calls=made[at : at + each]) for at in range(0, count, each))


@pytest.mark.parametrize("each", [1, 1_000])
async def test_an_answer_of_endless_calls_ends_at_its_limit(each: int) -> None:
    received: list[EngineChunk] = []

    def deliver(chunks: Iterable[EngineChunk]) -> bool:
        received.extend(chunks)
        return all(one.finish is None for one in chunks)

    flood_of_calls = calls(3 * OUTPUT_ITEMS_MAX, each=each)
    with flooding(STREAM_HEAD, lambda: [flood_of_calls]) as flood:
        await generated(flood, READERS["chat"](), deliver)
    last = received[-1]
    assert isinstance(last, ChatChunk)
    assert last.finish is FinishReason.LENGTH


async def test_an_event_of_too_many_parts_is_an_error() -> None:
    event = chunk(content=["x"] * (ENGINE_EVENT_ITEMS_MAX + 1))
    with flooding(STREAM_HEAD, lambda: [event]) as flood, pytest.raises(EngineFault, match="parts; the limit is"):
        await generated(flood, READERS["chat"]())


# ---- Compression, redirects, keys ----


@pytest.mark.parametrize("name", ["gzip", "x-gzip", "deflate", "br", "zstd"])
async def test_compressed_answer_is_an_error_and_is_not_decompressed(name: str) -> None:
    packed = gzip.compress(b":\n" * 10**6)
    head = STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: %s\r\n\r\n" % name.encode())
    with flooding(head, lambda: [packed]) as flood:
        with pytest.raises(EngineMisconfigured, match="compresses its answers"):
            await generated(flood, READERS["chat"]())
        assert b"\r\naccept-encoding: identity\r\n" in flood.requests[0].lower()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_gets_neither_prompt_nor_key(status: int, caplog: pytest.LogCaptureFixture) -> None:
    with flooding(b"", lambda: ()) as elsewhere:
        location = f"http://user:hunter2@127.0.0.1:{elsewhere.port}/v1"
        head = b"HTTP/1.1 %d X\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n" % (status, location.encode())
        with flooding(head, lambda: ()) as flood, pytest.raises(EngineMisconfigured, match="redirects") as caught:
            await generated(flood, READERS["chat"]())
    assert elsewhere.requests == []
    assert f"127.0.0.1:{elsewhere.port}" in caplog.text
    assert str(elsewhere.port) not in caught.value.message
    assert "hunter2" not in caplog.text + caught.value.message


KEYS = {
    "vendor": "Incorrect API key provided: {}. You can find your key at the console.",
    "header": 'The header "Authorization: Bearer {}" is not valid.',
    "member": '{{"api_key": "{}"}} was rejected',
    "password": "cannot connect to http://proxy:{}@10.0.0.1:3128",
}


@pytest.mark.parametrize("status", [400, 401, 500])
@pytest.mark.parametrize("form", KEYS)
async def test_keys_in_the_errors_of_engines_reach_neither_clients_nor_the_log(
    form: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "sk-proj-5ec7e75ec7e7abcd"
    body = json.dumps({"error": {"message": KEYS[form].format(secret), "code": secret, "type": secret}}).encode()
    head = b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
    with flooding(head, lambda: [body]) as flood, pytest.raises(AntiphonError) as caught:
        await generated(flood, READERS["chat"]())
    assert "5ec7e7" not in caught.value.message + str(caught.value.facts) + caplog.text
