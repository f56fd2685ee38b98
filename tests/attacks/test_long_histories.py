"""Long requests and histories: each takes tens of milliseconds in each service, whatever is done about them. A tenant's
long work has a budget of bytes in each process, and waits in line beyond it; the turns of other tenants do not."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from antiphon_core import offload
from antiphon_edge.callers.authentication import TENANT_HEADER
from antiphon_edge.quotas import long_work
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from tests.support.edge import RunningEdge, running_edge
from tests.support.waiting import WAIT_MAX_S

LONG = 512 * 2**10
TEXT = "x" * LONG
CALLS = 6


class Preparation:
    """Counts the long turns of each tenant that a translator prepares. They wait before their first batch."""

    def __init__(self, edge: RunningEdge) -> None:
        self.now, self.most = Counter[str](), Counter[str]()
        self.begun, self.release = asyncio.Event(), asyncio.Event()
        self._play = edge.translator._play
        edge.translator._play = self._held  # type: ignore[method-assign,assignment]

    async def _held(self, turn: Any, *rest: Any) -> AsyncIterator[Any]:
        if turn.size_bytes > LONG:
            self.now[turn.tenant] += 1
            self.most[turn.tenant] = max(self.most[turn.tenant], self.now[turn.tenant])
            self.begun.set()
            await self.release.wait()
            self.now[turn.tenant] -= 1
        async for batch in self._play(turn, *rest):
            yield batch


async def create(edge: RunningEdge, tenant: str, **members: Any) -> Any:
    body = {"model": "m", "input": "hi", **members}
    return await edge.ask("POST", "/v1/responses", body, headers={TENANT_HEADER: tenant})


async def body_members(edge: RunningEdge) -> list[dict[str, Any]]:
    return [{"input": TEXT, "store": False} for _ in range(CALLS)]


async def history_members(edge: RunningEdge) -> list[dict[str, Any]]:
    first = await create(edge, "attacker", input=TEXT)
    return [{"previous_response_id": first.json["id"]} for _ in range(CALLS)]


async def conversation_members(edge: RunningEdge) -> list[dict[str, Any]]:
    items = [{"type": "message", "role": "user", "content": TEXT}]
    headers = {TENANT_HEADER: "attacker"}
    made = [await edge.ask("POST", "/v1/conversations", {"items": items}, headers=headers) for _ in range(CALLS)]
    return [{"conversation": each.json["id"]} for each in made]


KINDS = {"bodies": body_members, "histories": history_members, "conversations": conversation_members}


@pytest.mark.parametrize("kind", KINDS)
async def test_long_turns_of_a_tenant_are_prepared_one_by_one_and_block_nobody_else(kind: str) -> None:
    async with running_edge(tenants=True, long_bytes_per_tenant=LONG) as edge, asyncio.timeout(WAIT_MAX_S):
        members = await KINDS[kind](edge)
        preparation = Preparation(edge)
        attack = [asyncio.create_task(create(edge, "attacker", **each)) for each in members]
        await preparation.begun.wait()
        assert (await create(edge, "victim")).status == 200
        assert (await create(edge, "attacker")).status == 200  # short work does not wait, either
        assert preparation.now["attacker"] == 1
        preparation.release.set()
        answers = await asyncio.gather(*attack)
    assert {answer.status for answer in answers} == {200}
    assert preparation.most["attacker"] == 1


async def wrong_body(edge: RunningEdge) -> int:
    body = {"model": "m", "input": TEXT, "temperature": "x"}
    return (await edge.ask("POST", "/v1/responses", body, headers={TENANT_HEADER: "attacker"})).status


async def wrong_message(edge: RunningEdge) -> int:
    message = {"type": "response.create", "model": "m", "input": TEXT, "temperature": "x"}
    async with edge.http.session.ws_connect(
        edge.http.url + "/v1/responses", headers={TENANT_HEADER: "attacker"}
    ) as socket:
        await socket.send_json(message)
        return int((await socket.receive_json())["status"])


@pytest.mark.parametrize("ask", [wrong_body, wrong_message], ids=["bodies", "messages"])
async def test_long_bodies_that_are_rejected_are_parsed_one_by_one_and_block_nobody_else(
    ask: Callable[[RunningEdge], Coroutine[Any, Any, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They never became turns, so they had no budget: 200,000 values keep the GIL for 20 ms."""
    parsing, most, begun, release = 0, 0, asyncio.Event(), asyncio.Event()
    run = offload.run

    async def held(work: Any, *, size_bytes: int, **options: Any) -> Any:
        nonlocal parsing, most
        if size_bytes < LONG:
            return await run(work, size_bytes=size_bytes, **options)
        parsing += 1
        most = max(most, parsing)
        begun.set()
        await release.wait()
        parsing -= 1
        return await run(work, size_bytes=size_bytes, **options)

    monkeypatch.setattr(offload, "run", held)
    async with running_edge(tenants=True, long_bytes_per_tenant=LONG) as edge, asyncio.timeout(WAIT_MAX_S):
        attack = [asyncio.create_task(ask(edge)) for _ in range(CALLS)]
        await begun.wait()
        assert (await create(edge, "victim")).status == 200
        assert (await create(edge, "attacker")).status == 200
        release.set()
        assert set(await asyncio.gather(*attack)) == {400}
    assert most == 1


async def test_long_chains_of_short_responses_are_read_one_by_one_and_block_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chain of 700 responses of 200 bytes took 12 ms of edge and store, and did not count as long work."""
    reading, most, begun, release = 0, 0, asyncio.Event(), asyncio.Event()
    chain = StoreService.chain

    async def held(store: StoreService, tenant: str, response_id: str, **options: Any) -> Any:
        nonlocal reading, most
        reading += 1
        most = max(most, reading)
        begun.set()
        await release.wait()
        reading -= 1
        return await chain(store, tenant, response_id, **options)

    async with running_edge(tenants=True, long_bytes_per_tenant=LONG) as edge, asyncio.timeout(WAIT_MAX_S):
        leaf = None
        for _ in range(700):
            leaf = draft(leaf)
            await edge.store.put("attacker", leaf)
        path, headers = f"/v1/responses/{leaf.id}/chain", {TENANT_HEADER: "attacker"}  # type: ignore[union-attr]
        assert (await edge.ask("GET", path, headers=headers)).status == 200
        monkeypatch.setattr(StoreService, "chain", held)
        attack = [asyncio.create_task(edge.ask("GET", path, headers=headers)) for _ in range(CALLS)]
        await begun.wait()
        assert (await create(edge, "victim")).status == 200
        release.set()
        assert {answer.status for answer in await asyncio.gather(*attack)} == {200}
    assert most == 1


async def test_long_turns_beyond_the_line_are_rejected_with_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_work, "LINE", 2)
    async with running_edge(tenants=True, long_bytes_per_tenant=LONG) as edge, asyncio.timeout(WAIT_MAX_S):
        preparation = Preparation(edge)
        attack = [asyncio.create_task(create(edge, "attacker", input=TEXT, store=False)) for _ in range(CALLS)]
        await asyncio.wait(attack, return_when=asyncio.FIRST_COMPLETED)
        preparation.release.set()
        answers = await asyncio.gather(*attack)
    assert {answer.status for answer in answers} == {200, 429}
    rejected = [answer for answer in answers if answer.status == 429]
    assert {answer.error["code"] for answer in rejected} == {"rate_limit_exceeded"}
    assert all("edge.long_bytes_per_tenant" in answer.error["message"] for answer in rejected)
    assert all(float(answer.headers["retry-after"]) > 0 for answer in rejected)
