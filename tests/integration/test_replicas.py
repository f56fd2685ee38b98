"""A fleet: each request about a response goes to another replica, and clients cannot tell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from antiphon_core import events
from antiphon_core.events import DONE_FRAME, KEEP_ALIVE_FRAME
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, loads
from tests.support.http import Http, RetryingHttp
from tests.support.replicas import Replicas, fleet
from tests.support.schema import validate_response
from tests.support.fixed_text_model import FixedTextTriton, fixed_text, fixed_text_ids, fixed_text_triton
from tests.support.volume import volume
from tests.support.waiting import WAIT_MAX_S, least

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIZES = {"store": 1, "translator": 2, "edge": volume(2, 3), "worker": 2}
WORDS = 30
KEYS = volume(4, 100)
SAME_KEY = 32
SOME_IDS, MOST_IDS = len(fixed_text_ids(WORDS)) // 4, len(fixed_text_ids(WORDS)) // 2
LOST = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)
"""The errors of a request whose edge dies."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def triton() -> AsyncIterator[FixedTextTriton]:
    async with fixed_text_triton(WORDS) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replicas(triton: FixedTextTriton, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Replicas]:
    folder = tmp_path_factory.mktemp("fleet")
    async with fleet(folder, triton.endpoint, worker_options=["--worker-drain-s=2"], sizes=SIZES) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def http(replicas: Replicas, triton: FixedTextTriton) -> AsyncIterator[Http]:
    """Each request has its own connection, and so goes to the next edge. All processes run."""
    await replicas.start(*replicas.dead())
    triton.pause_s = 0.02
    triton.go_on()
    triton.starts.clear()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True, limit=0)) as session:
        yield RetryingHttp(session, replicas.url)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_MAX_S):
        while not condition():
            await asyncio.sleep(0.01)


async def create(http: Http, **members: Any) -> Object:
    answer = await http.create(**({"model": "m", "input": "hi", "background": True} | members))
    assert answer.status == 200, answer.body
    created: Object = answer.json
    return created


async def current(http: Http, response_id: str) -> Object:
    """Reads a response, and retries when its edge dies."""
    while True:
        with suppress(*LOST):
            answer = await http.get(f"/v1/responses/{response_id}")
            assert answer.status == 200, answer.body
            told: Object = answer.json
            return told


async def when(http: Http, response_id: str, *statuses: str) -> Object:
    """Polls a response until it has one of these statuses."""
    async with asyncio.timeout(WAIT_MAX_S):
        while (told := await current(http, response_id))["status"] not in statuses:
            await asyncio.sleep(0.05)
    return told


async def ended(http: Http, response_id: str) -> Object:
    return await when(http, response_id, "completed", "incomplete", "failed", "cancelled")


async def frames_after(http: Http, response_id: str, after: int | None) -> AsyncIterator[bytes]:
    """The frames of one streamed answer as they come. Raises when the connection breaks."""
    place = "" if after is None else f"&starting_after={after}"
    url = f"{http.url}/v1/responses/{response_id}?stream=true{place}"
    pending, last = b"", b""
    async with http.session.get(url) as answer:
        assert answer.status == 200, await answer.read()
        async for chunk in answer.content.iter_any():
            *whole, pending = (pending + chunk).split(b"\n\n")
            for frame in (each + b"\n\n" for each in whole):
                last = frame
                if frame not in (DONE_FRAME, KEEP_ALIVE_FRAME):
                    yield frame
    if last != DONE_FRAME:
        raise aiohttp.ClientPayloadError("the stream broke off")


async def stream(
    http: Http, response_id: str, *, after: int | None = None, told: list[bytes] | None = None
) -> list[bytes]:
    """All frames behind `after`, to the end, collected in `told` as they come. Resumes after a broken connection."""
    told = [] if told is None else told
    async with asyncio.timeout(WAIT_MAX_S):
        while True:
            try:
                async for frame in frames_after(http, response_id, after):
                    told.append(frame)
                    (event,) = events.decode(frame)
                    after = event["sequence_number"]
                return told
            except LOST:
                await asyncio.sleep(0.05)


def require_whole(frames: list[bytes], response: Object) -> None:
    """Requires dense sequence numbers without duplicates, and the completed response with the whole story."""
    log = events.decode(b"".join(frames))
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert fold(log) == log[-1]["response"] == response
    assert response["status"] == "completed"
    validate_response(response)
    assert "".join(event["delta"] for event in log if "delta" in event) == fixed_text(WORDS)
    assert response["output"][0]["content"][0]["text"] == fixed_text(WORDS)


async def test_a_background_response_is_served_by_every_replica(
    http: Http, replicas: Replicas, triton: FixedTextTriton
) -> None:
    triton.hold(at=SOME_IDS)
    before = len(replicas.balancer.chosen)
    created = await create(http)
    assert (created["status"], created["output"]) == ("queued", [])
    await when(http, created["id"], "in_progress")
    told: list[bytes] = []
    following = asyncio.create_task(stream(http, created["id"], told=told))
    await until(lambda: len(told) > SOME_IDS)
    later = asyncio.create_task(stream(http, created["id"], after=5))
    triton.go_on()
    response = await ended(http, created["id"])
    frames = await following
    require_whole(frames, response)
    assert await later == frames[6:]
    for after in (0, 1, len(frames) // 2, len(frames) - 2, len(frames) - 1):
        assert await stream(http, created["id"], after=after) == frames[after + 1 :]
    chosen = replicas.balancer.chosen[before:]
    assert all(one != next_one for one, next_one in pairwise(chosen))
    assert set(chosen) == set(replicas.balancer.addresses)


async def test_cancelling_stops_the_model_behind_another_replica(http: Http, triton: FixedTextTriton) -> None:
    assert await least(lambda: seconds_to_cancel(http, triton), most=3) < 3  # the promise is one second


async def seconds_to_cancel(http: Http, triton: FixedTextTriton) -> float:
    """Cancels a response whose model would never end. Returns the seconds until the model has stopped."""
    triton.hold(at=SOME_IDS)
    created = await create(http)
    told: list[bytes] = []
    following = asyncio.create_task(stream(http, created["id"], told=told))
    await until(lambda: len(told) > SOME_IDS)
    began_s = time.monotonic()
    cancelled = await cancel(http, created["id"])
    await until(lambda: not triton.running)
    took_s = time.monotonic() - began_s
    assert cancelled["status"] == "cancelled"
    log = events.decode(b"".join(await following))
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert log[-1]["type"] not in events.TERMINAL  # the API has no event for a cancellation: the stream just ends
    said = "".join(event["delta"] for event in log if "delta" in event)
    assert cancelled["output"][0]["content"][0]["text"] == said
    assert cancelled == await current(http, created["id"])
    assert await cancel(http, created["id"]) == cancelled
    return took_s


async def cancel(http: Http, response_id: str) -> Object:
    """Cancels until the response has ended: an edge waits only for a limited time for a busy worker."""
    async with asyncio.timeout(WAIT_MAX_S):
        while True:
            answer = await http.post(f"/v1/responses/{response_id}/cancel", b"")
            assert answer.status == 200, answer.body
            told: Object = answer.json
            if told["status"] not in ("queued", "in_progress"):
                return told


async def test_deleting_a_running_response_stops_it(http: Http, triton: FixedTextTriton) -> None:
    triton.hold(at=SOME_IDS)
    created = await create(http)
    following = asyncio.create_task(stream(http, created["id"]))
    await until(lambda: triton.running == 1)
    assert (await http.ask("DELETE", f"/v1/responses/{created['id']}")).status == 200
    assert (await http.get(f"/v1/responses/{created['id']}")).status == 404
    assert events.decode((await following)[-1])[0]["type"] not in events.TERMINAL
    await until(lambda: not triton.running)


async def test_a_conversation_and_its_fork_continue_on_any_replica(http: Http, triton: FixedTextTriton) -> None:
    triton.pause_s = 0
    conversation = (await http.post("/v1/conversations", {})).json["id"]
    first = await create(http, conversation=conversation)
    await ended(http, first["id"])
    fork = (await http.post(f"/v1/sessions/{conversation}/fork", {})).json
    assert fork["head_id"] == first["id"]
    second, other = await create(http, conversation=conversation), await create(http, conversation=fork["id"])
    assert {(await ended(http, each["id"]))["status"] for each in (second, other)} == {"completed"}
    children = (await http.get(f"/v1/responses/{first['id']}/children")).json["data"]
    assert {child["id"] for child in children} == {second["id"], other["id"]}
    for each in (second, other):
        chain = (await http.get(f"/v1/responses/{each['id']}/chain")).json["data"]
        assert [response["id"] for response in chain] == [first["id"], each["id"]]


@pytest.mark.parametrize("background", [True, False])
async def test_nothing_is_generated_twice_under_one_key(http: Http, triton: FixedTextTriton, background: bool) -> None:
    triton.pause_s = 0
    for number in range(KEYS):
        key = {"Idempotency-Key": f"{background}-{number}"}
        body = {"model": "m", "input": f"{background} {number}", "background": background}
        answers = await asyncio.gather(*(http.ask("POST", "/v1/responses", body, headers=key) for _ in range(SAME_KEY)))
        assert {answer.status for answer in answers} == {200}
        (response_id,) = {answer.json["id"] for answer in answers}
        response = await ended(http, response_id)
        assert response["status"] == "completed"
        if not background:
            assert {answer.body for answer in answers} == {answers[0].body}
            assert loads(answers[0].body) == response
    assert set(triton.began_anew().values()) == {1}
    assert len(triton.began_anew()) == KEYS == len(triton.starts)


async def test_a_stopped_worker_hands_its_jobs_to_another(
    http: Http, replicas: Replicas, triton: FixedTextTriton
) -> None:
    triton.hold(at=SOME_IDS)
    created = [await create(http, input=f"stop {number}") for number in range(4)]
    await until(lambda: triton.running == len(created))
    assert await asyncio.to_thread(replicas.pods["worker-0"].command.stop) == 0
    triton.go_on()
    for each in created:
        require_whole(await stream(http, each["id"]), await ended(http, each["id"]))
    assert set(triton.began_anew().values()) == {1}
    assert len(triton.starts) <= 2 * len(created)


async def test_background_responses_survive_kill_9_of_worker_edge_and_translator(
    http: Http, replicas: Replicas, triton: FixedTextTriton
) -> None:
    triton.hold(at=MOST_IDS)
    keys = [{"Idempotency-Key": f"kill-{number}"} for number in range(12)]

    async def ask(number: int) -> str:
        """Retries a broken connection like an SDK. The key makes the retry safe."""
        body = {"model": "m", "input": f"kill {number}", "background": True}
        while True:
            with suppress(*LOST):
                answer = await http.ask("POST", "/v1/responses", body, headers=keys[number])
                return str(answer.json["id"])

    ids = await asyncio.gather(*(ask(number) for number in range(12)))
    told: list[list[bytes]] = [[] for _ in ids]
    followers = [
        asyncio.create_task(stream(http, response_id, told=frames))
        for response_id, frames in zip(ids, told, strict=True)
    ]
    await until(lambda: triton.running == len(ids) and min(map(len, told)) > SOME_IDS)
    for name in ("worker-0", "edge-0", "translator-0"):
        replicas.kill(name)
    triton.go_on()
    assert await asyncio.gather(*(ask(number) for number in range(12))) == ids
    followed = await asyncio.gather(*followers)
    for response_id, frames in zip(ids, followed, strict=True):
        require_whole(frames, await ended(http, response_id))
        assert await stream(http, response_id) == frames
        assert await stream(http, response_id, after=40) == frames[41:]
    assert set(triton.began_anew().values()) == {1}
    assert len(triton.began_anew()) == len(ids)
    assert len(triton.starts) > len(ids)  # some turns were resumed
