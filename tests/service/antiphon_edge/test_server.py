from __future__ import annotations

import asyncio

import aiohttp
import pytest

from antiphon_core.ports.jobs import DISPATCH_QUEUE, JobState
from antiphon_store.testing.faulty import Fault, When
from tests.support.edge import running_edge
from tests.support.scripted_system import MODEL, scripted_system
from tests.support.thinking_edges import thinking_edges
from tests.support.waiting import until


async def test_port_zero_becomes_a_real_one() -> None:
    async with running_edge() as edge:
        assert edge.server.url.startswith("http://127.0.0.1:")
        assert not edge.server.url.endswith(":0")


async def test_a_stop_lets_running_requests_end_within_the_drain() -> None:
    async with running_edge(drain_s=60) as edge:
        edge.translator.hang = True
        slow = asyncio.create_task(edge.create())
        await until(lambda: bool(edge.translator.turns), "the turn")
        stopping = asyncio.create_task(edge.server.stop())
        with pytest.raises(aiohttp.ClientConnectionError):
            async with asyncio.timeout(30):
                while True:
                    await edge.ask("GET", "/v1/health/live")
                    await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not slow.done()
        slow.cancel()
        await asyncio.wait_for(stopping, 30)


async def test_stop_does_not_wait_for_callers_that_wait_for_a_session() -> None:
    """Two requests wait up to a minute for a turn at another edge; one client disconnects."""
    async with running_edge(drain_s=0.1, conversation_wait_ms=60_000) as edge:
        conversation = (await edge.ask("POST", "/v1/conversations", {})).json["id"]
        elsewhere = await edge.store.acquire_session("default", conversation, holder="elsewhere")
        asking = [asyncio.create_task(edge.create(conversation=conversation)) for _ in range(2)]
        await asyncio.sleep(0.1)
        asking[0].cancel()
        await asyncio.sleep(0.05)
        async with asyncio.timeout(30):
            await edge.server.stop()
        await asyncio.gather(*asking, return_exceptions=True)
        assert edge.translator.turns == []
        assert (await edge.store.describe_session("default", conversation)).lease == elsewhere


async def test_response_that_outlasts_the_drain_fails_so_that_its_client_repeats_it() -> None:
    async with running_edge(drain_s=0.1) as edge:
        edge.translator.hang = True
        whole, streamed = asyncio.create_task(edge.create()), asyncio.create_task(edge.create(stream=True))
        await until(lambda: len(edge.translator.turns) == 2, "the turns")
        await asyncio.sleep(0.05)
        await edge.server.stop()
        assert (await whole).status == 503
        assert (await whole).error["code"] == "server_shutting_down"
        *_, error, failed = (await streamed).events
        assert (error["type"], error["code"], failed["type"]) == ("error", "server_shutting_down", "response.failed")
        assert {row.fields["status"] for row in edge.backend.stored().values()} == {"failed"}


async def test_reasoning_sealed_by_a_worker_is_opened_by_an_edge_with_the_same_keys() -> None:
    async with scripted_system() as system:
        include = ["reasoning.encrypted_content"]
        made = (await system.http.create(model=MODEL, input="Think.", background=True, include=include)).json
        told = await system.http.get(f"/v1/responses/{made['id']}?stream=true")  # followed to its end
        thought = told.events[-1]["response"]["output"][0]
        assert thought["encrypted_content"]
        again = await system.http.create(model=MODEL, input=[thought, {"role": "user", "content": "Hi"}])
    assert again.status == 200, again.json


async def test_background_response_in_creation_is_queued_before_the_stop_ends() -> None:
    async with thinking_edges(drain_s=30) as edges:
        edges.backend.plan(Fault("commit_turn", When.BEFORE, error=None, delay_s=0.15))
        asking = asyncio.create_task(edges.http.create(model="m", input="hi", background=True))
        await until(lambda: not edges.backend.planned, "the commit")
        asking.cancel()
        await edges.servers[0].stop()
        job = await edges.store.claim_job("default", [DISPATCH_QUEUE], holder="test")
        assert job is not None
        assert (await edges.store.get("default", job.id)).status == "queued"
        assert (await edges.store.describe_job("default", job.id)).state is JobState.RUNNING
