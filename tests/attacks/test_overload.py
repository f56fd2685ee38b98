"""A tenant opens as many turns as it can. It is rejected with Retry-After, and another tenant's turn takes as long as
it takes alone. Turns are counted and wait for events; the victim's turn is measured with and without the attack."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from antiphon_core.clock import SystemClock
from antiphon_edge.callers.authentication import TENANT_HEADER
from tests.support.edge import RunningEdge, running_edge
from tests.support.http import Answer
from tests.support.waiting import least

TURNS = 20
SHARE = 16  # four times as many as stay free


def asking(edge: RunningEdge, tenant: str, model: str = "m") -> Awaitable[Answer]:
    return edge.ask("POST", "/v1/responses", {"model": model, "input": "hi"}, headers={TENANT_HEADER: tenant})


async def hold_turns(edge: RunningEdge, tenant: str, count: int) -> list[asyncio.Task[Answer]]:
    """Starts so many turns of a tenant whose model does not answer."""
    edge.translator.hang = True
    turns = []
    for number in range(count):
        turns.append(asyncio.ensure_future(asking(edge, tenant)))
        while len(edge.translator.turns) <= number:
            await asyncio.sleep(0.001)
    edge.translator.hang = False
    return turns


async def let_go(turns: list[asyncio.Task[Answer]]) -> None:
    for turn in turns:
        turn.cancel()
    await asyncio.gather(*turns, return_exceptions=True)


async def test_a_tenant_above_its_share_of_turns_gets_429_without_delaying_others() -> None:
    async with running_edge(tenants=True, turns_max=TURNS) as edge:

        async def seconds() -> float:
            began_s = time.monotonic()
            assert (await asking(edge, "victim")).status == 200
            return time.monotonic() - began_s

        alone_s = min([await seconds() for _ in range(5)])
        edge.translator.turns.clear()
        turns = await hold_turns(edge, "attacker", SHARE)
        refused = await asking(edge, "attacker")
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert "are yours" in refused.error["message"]
        beside_s = await least(seconds, most=3 * alone_s, tries=50)
        print(f"the victim's turn took {alone_s * 1000:.1f} ms alone, {beside_s * 1000:.1f} ms beside {SHARE} turns")
        assert beside_s <= 3 * alone_s
        await let_go(turns)


async def test_turns_above_the_process_limit_get_503_with_retry_after() -> None:
    async with running_edge(tenants=True, turns_max=2) as edge:
        turns = [*await hold_turns(edge, "a", 1)]
        edge.translator.turns.clear()
        turns += await hold_turns(edge, "b", 1)
        answer = await asking(edge, "c")
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert (await edge.ask("GET", "/v1/models", headers={TENANT_HEADER: "c"})).status == 200
        await let_go(turns)


@pytest.mark.parametrize("limit", ["lag", "memory"])
async def test_an_overloaded_process_rejects_turns_and_answers_other_requests(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load: dict[str, Callable[[object], float]] = {
        "lag": lambda _load: 1.0 if limit == "lag" else 0.0,
        "memory": lambda _load: 0.95 if limit == "memory" else 0.1,
    }
    monkeypatch.setattr("antiphon_core.process_load.ProcessLoad.lag_s", property(load["lag"]))
    monkeypatch.setattr("antiphon_core.process_load.ProcessLoad.memory_share", property(load["memory"]))
    async with running_edge(clock=SystemClock()) as edge:
        answer = await edge.create()
        assert (answer.status, answer.error["code"]) == (503, "unavailable")
        assert int(answer.headers["retry-after-ms"]) >= 1_000
        assert (await edge.ask("GET", "/v1/models")).status == 200
        assert not edge.translator.turns
