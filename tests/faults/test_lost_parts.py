"""A part dies in the middle of an answer: the client gets one clear end and a record, and is served again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import aiohttp
import pytest

from antiphon_core import events
from antiphon_core.fold import fold
from antiphon_core.jsons import Object
from tests.support.http import Http
from tests.support.schema import validate_event, validate_response
from tests.support.system import System, split, up
from tests.support.waiting import WAIT_MAX_S

AT_ONCE_S = 30.0  # on a busy machine; an unanswered call of the store takes 75
LONG = "Tell me a very long story about the sea."


@pytest.fixture
def own_split(up_system: System, tmp_path: Path) -> Iterator[System]:
    """Three processes of this test alone, which the test kills."""
    profiles, options = up_system.data / "profiles", ["--edge-restart-wait-s=0.5"]
    with split(tmp_path, profiles=profiles, model=up_system.model, options=options) as system:
        yield system


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture(scope="module")
def ups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], System]]:
    """Starts everything in one process, unless the last process that it started still runs."""
    started: list[System] = []
    with ExitStack() as life:

        def running() -> System:
            if not started or started[-1].commands["up"].process.poll() is not None:
                started.append(life.enter_context(up(tmp_path_factory.mktemp("up"))))
            return started[-1]

        yield running


@pytest.fixture
async def own_up(ups: Callable[[], System]) -> System:
    """Everything in one process, with its Triton, which the test kills."""
    system = ups()  # not in another thread: the process would end with the thread
    async with asyncio.timeout(WAIT_MAX_S):
        while True:
            with suppress(RuntimeError):  # the supervisor is restarting Triton
                system.triton_pid()
                return system
            await asyncio.sleep(0.1)


async def read_some(stream: AsyncIterator[Object], deltas: int) -> list[Object]:
    """Reads events until `deltas` deltas have come."""
    seen: list[Object] = []
    async for event in stream:
        seen.append(event)
        if sum(one["type"] == events.OUTPUT_TEXT_DELTA for one in seen) == deltas:
            return seen
    raise AssertionError("the stream ended early")


async def test_a_translator_killed_in_mid_stream_fails_the_turn_with_its_text(
    own_split: System, session: aiohttp.ClientSession
) -> None:
    http = Http(session, own_split.url)
    async with http.stream(model=own_split.model, input=LONG, max_output_tokens=400) as stream:
        seen = await read_some(stream, 5)
        own_split.commands["translator"].kill()
        seen += [event async for event in stream]
    for event in seen:
        validate_event(event)
    assert [event["sequence_number"] for event in seen] == list(range(len(seen)))
    assert [event["type"] for event in seen[-2:]] == [events.ERROR, events.FAILED]
    ended = seen[-1]["response"]
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == "server_error"
    deltas = "".join(event["delta"] for event in seen if event["type"] == events.OUTPUT_TEXT_DELTA)
    assert ended["output"][0]["content"][0]["text"] == deltas
    assert (await http.get(f"/v1/responses/{ended['id']}")).json == ended == fold(seen)
    refused = await http.create(model=own_split.model, input="hi")
    assert (refused.status, refused.error["type"]) == (503, "server_error")
    ready = await http.get("/v1/health/ready")
    assert ready.status == 503
    assert "Translator" in ready.json["message"]


async def test_a_killed_store_is_reported_after_the_restart_wait(
    own_split: System, session: aiohttp.ClientSession
) -> None:
    http = Http(session, own_split.url)
    first = (await http.create(model=own_split.model, input="hi", max_output_tokens=2)).json
    own_split.commands["store"].kill()
    asked = {"model": own_split.model, "input": "hi", "max_output_tokens": 2}
    async with asyncio.timeout(AT_ONCE_S):
        answer = await http.create(**asked, previous_response_id=first["id"])
    assert (answer.status, answer.error["code"], answer.headers["retry-after"]) == (503, "store_unavailable", "1")
    assert (await http.create(**asked, store=False)).status == 200


async def test_triton_killed_in_mid_stream_is_an_error_and_service_resumes(
    own_up: System, session: aiohttp.ClientSession
) -> None:
    http = Http(session, own_up.url)
    async with http.stream(model=own_up.model, input=LONG, max_output_tokens=400) as stream:
        seen = await read_some(stream, 5)
        os.kill(own_up.triton_pid(), signal.SIGKILL)
        async with asyncio.timeout(WAIT_MAX_S):
            seen += [event async for event in stream]
    assert [event["sequence_number"] for event in seen] == list(range(len(seen)))
    assert [event["type"] for event in seen[-2:]] == [events.ERROR, events.FAILED]
    validate_response(seen[-1]["response"])
    assert (await http.get(f"/v1/responses/{seen[-1]['response']['id']}")).json == seen[-1]["response"]
    async with asyncio.timeout(2 * WAIT_MAX_S):
        while (await http.get("/v1/health/ready")).status != 200:
            await asyncio.sleep(0.2)
    again = await http.create(model=own_up.model, input="What is the capital of France?", temperature=0)
    assert again.json["output"][0]["content"][0]["text"] == "The capital of France is Paris."


async def test_up_dies_and_takes_its_triton_along(own_up: System) -> None:
    triton = own_up.triton_pid()
    own_up.commands["up"].kill()
    async with asyncio.timeout(WAIT_MAX_S):
        while _lives(triton):
            await asyncio.sleep(0.1)


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
