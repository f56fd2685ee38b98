"""Rate limits over several edges: the store counts for all edges, and each edge counts its share during an outage."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from antiphon_core.clock import ManualClock
from antiphon_core.ids import RandomIds
from antiphon_core.jsons import dumps
from antiphon_store.client import StoreClient
from tests.support.fixed_text_model import FixedTextTriton, fixed_text_triton
from tests.support.http import Answer, Http, RetryingHttp, is_too_busy
from tests.support.in_process import running, store_endpoint
from tests.support.redis_servers import RedisServer, redis_rows, redis_server
from tests.support.replicas import Replicas, fleet
from tests.support.translators import ScriptedTranslator
from tests.support.waiting import WAIT_MAX_S

pytestmark = pytest.mark.asyncio(loop_scope="module")

EDGES = 3
TOKENS_OF_ONE = 5  # tokens of a response of the scripted translator
REMAINING_TOKENS = "x-ratelimit-remaining-tokens"


@dataclass
class Edges:
    """Edges with a store server each, over one Redis, with one clock that the test moves."""

    redis: RedisServer
    clock: ManualClock = field(default_factory=ManualClock)
    https: list[Http] = field(default_factory=list)
    translators: list[ScriptedTranslator] = field(default_factory=list)

    async def add(self, life: AsyncExitStack, **limits: Any) -> None:
        endpoint = await life.enter_async_context(store_endpoint(redis_rows(self.redis.url, clock=self.clock)))
        store = await life.enter_async_context(StoreClient(endpoint))
        self.translators.append(ScriptedTranslator())
        system = await life.enter_async_context(
            running(translator=self.translators[-1], store=store, clock=self.clock, replicas=EDGES, **limits)
        )
        self.https.append(system.http)

    async def create(self, edge: int, **members: Any) -> Answer:
        return await self.https[edge % EDGES].create(**({"model": "m", "input": "hi"} | members))

    async def statuses(self, count: int, **members: Any) -> Counter[int]:
        """The statuses of `count` concurrent requests, each to the next edge."""
        answers = await asyncio.gather(*(self.create(number, **members) for number in range(count)))
        return Counter(answer.status for answer in answers)


@asynccontextmanager
async def edges(**limits: Any) -> AsyncIterator[Edges]:
    async with AsyncExitStack() as life:
        made = Edges(life.enter_context(redis_server()))
        for _ in range(EDGES):
            await made.add(life, **limits)
        yield made


async def test_a_request_limit_is_shared_by_all_edges() -> None:
    async with edges(requests_per_minute=10) as running:
        assert await running.statuses(7) == {200: 7}
        assert await running.statuses(30) == {200: 3, 429: 27}
        for edge in range(EDGES):
            answer = await running.create(edge, stream=True)
            assert (answer.status, answer.error["type"]) == (429, "requests")
            assert (answer.headers["retry-after"], answer.headers["retry-after-ms"]) == ("6", "6000")
            assert answer.headers["x-ratelimit-limit-requests"] == "10"
            assert answer.headers["x-ratelimit-remaining-requests"] == "0"
        running.clock.advance(12)
        assert await running.statuses(9) == {200: 2, 429: 7}


async def test_tokens_generated_on_one_edge_count_on_all_edges() -> None:
    async with edges(tokens_per_minute=2 * TOKENS_OF_ONE) as running:
        for edge in range(2):
            assert (await running.create(edge)).status == 200
        async with asyncio.timeout(60):
            while (answer := await running.create(2)).status == 200:
                await asyncio.sleep(0.01)
        assert (answer.status, answer.error["type"]) == (429, "tokens")
        assert answer.headers[REMAINING_TOKENS] == "0"
        assert (await running.https[2].get("/v1/models")).status == 200
        running.clock.advance(int(answer.headers["retry-after"]))
        assert (await running.create(0)).status == 200


async def test_each_edge_grants_its_share_during_a_store_outage() -> None:
    async with edges(requests_per_minute=9, streams_per_tenant=9) as running:
        assert await running.statuses(9) == {200: 9}
        running.redis.kill()
        async with asyncio.timeout(30):
            assert await running.statuses(30, store=False) == {200: 9, 429: 21}
        await asyncio.to_thread(running.redis.start)
        running.clock.advance(60)
        async with asyncio.timeout(30):
            while (answer := await running.create(0, store=False)).headers["x-ratelimit-limit-requests"] != "9":
                await asyncio.sleep(0.05)  # time for the connection to come back
                running.clock.advance(60)
        assert answer.status == 200


async def test_edges_without_shared_limits_grant_their_share() -> None:
    async with edges(requests_per_minute=9, shared_limits=False) as running:
        statuses = [(await running.create(0)).status for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        assert (await running.create(1)).headers["x-ratelimit-limit-requests"] == "3"


# ---- Processes ----

STREAMS = 4
STREAM_SLOT_TTL_S = 2
TOKENS_PER_MINUTE = 1_000  # the bucket gets 17 in a second
RESPONSES = 10


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def triton() -> AsyncIterator[FixedTextTriton]:
    async with fixed_text_triton(30) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replicas(triton: FixedTextTriton, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Replicas]:
    limits = (
        f"--edge-streams-per-tenant={STREAMS}",
        f"--edge-tokens-per-minute={TOKENS_PER_MINUTE}",
        f"--edge-stream-slot-ttl-s={STREAM_SLOT_TTL_S}",
        "--edge-trusted-proxies=127.0.0.1/32",
    )
    sizes = {"store": 1, "translator": 1, "edge": EDGES, "worker": 1}
    slots = [f"--worker-slots={RESPONSES}"]
    folder = tmp_path_factory.mktemp("fleet")
    async with fleet(folder, triton.endpoint, *limits, worker_options=slots, sizes=sizes) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def session(replicas: Replicas, triton: FixedTextTriton) -> AsyncIterator[aiohttp.ClientSession]:
    """A session of a new tenant. All processes run."""
    await replicas.start(*replicas.dead())
    triton.pause_s = 0.0
    triton.go_on()
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    async with aiohttp.ClientSession(connector=connector, headers={"x-tenant-id": RandomIds().hex(8)}) as made:
        yield made


STREAM = dumps({"model": "m", "input": "hi", "stream": True})


async def begin_stream(life: AsyncExitStack, http: Http) -> None:
    """Begins a stream as soon as a stream slot is free. The stream lasts until the end of `life`."""
    async with asyncio.timeout(WAIT_MAX_S):
        while True:
            answer = await http.session.post(f"{http.url}/v1/responses", data=STREAM)
            life.callback(answer.close)
            if answer.status == 200:
                assert (await answer.content.readline()) == b"event: response.created\n"
                return
            refused = Answer(answer.status, {}, await answer.read())
            assert refused.status == 429 or is_too_busy(refused), refused
            await asyncio.sleep(0.05)


async def until_refused(http: Http) -> Answer:
    """The rejection of a stream. An edge for which the store is too slow, as on a busy machine, admits by its own share
    for a while: streams that it admits are closed at once, and hold no slot."""
    async with asyncio.timeout(WAIT_MAX_S):
        while True:
            async with http.session.post(f"{http.url}/v1/responses", data=STREAM) as answer:
                if answer.status == 429:
                    headers = {name.lower(): value for name, value in answer.headers.items()}
                    return Answer(answer.status, headers, await answer.read())
                answer.close()
            await asyncio.sleep(0.5)


async def until_admitted(http: Http) -> Answer:
    async with asyncio.timeout(WAIT_MAX_S):
        while (answer := await http.create(model="m", input="hi")).status == 429:
            await asyncio.sleep(0.05)
    return answer


async def test_stream_slots_are_shared_and_freed_after_kill_9_of_their_edge(
    replicas: Replicas, triton: FixedTextTriton, session: aiohttp.ClientSession
) -> None:
    https = [RetryingHttp(session, url) for url in replicas.edge_urls]
    triton.pause_s = 3600.0
    async with AsyncExitStack() as life:
        for number in range(STREAMS):
            await begin_stream(life, https[number % EDGES])
        await asyncio.sleep(2.5 * STREAM_SLOT_TTL_S)
        for http in https:
            answer = await until_refused(http)
            assert "Limit 4" in answer.error["message"]
            assert answer.headers["retry-after"] == "1"
        replicas.kill("edge-0")  # and its two streams
        triton.pause_s = 0.0
        assert (await until_admitted(https[1])).status == 200
        triton.pause_s = 3600.0
        for http in https[1:]:
            await begin_stream(life, http)
        await until_refused(https[1])
    triton.pause_s = 0.0
    assert (await until_admitted(https[2])).status == 200  # closed streams release their slots


async def test_the_tokens_of_background_responses_count(
    replicas: Replicas, triton: FixedTextTriton, session: aiohttp.ClientSession
) -> None:
    """All responses end together, so that their tokens are taken faster than the bucket fills."""
    triton.hold(at=0)
    http = RetryingHttp(session, replicas.url)

    async def ended(response_id: str) -> Any:
        while (answer := (await http.get(f"/v1/responses/{response_id}")).json)["status"] != "completed":
            await asyncio.sleep(0.05)
        return answer

    async with asyncio.timeout(2 * WAIT_MAX_S):
        created = [(await http.create(model="m", input="hi", background=True)).json for _ in range(RESPONSES)]
        while triton.running < RESPONSES:
            await asyncio.sleep(0.05)
        triton.go_on()
        responses = [await ended(each["id"]) for each in created]
        taken = sum(response["usage"]["total_tokens"] for response in responses)
        while int((await http.get("/v1/models")).headers[REMAINING_TOKENS]) > max(0, TOKENS_PER_MINUTE - taken / 2):
            await asyncio.sleep(0.05)
