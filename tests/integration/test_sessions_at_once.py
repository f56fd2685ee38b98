"""Concurrent first turns of one session on two edges become one conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from antiphon_core.ids import RandomIds, tree_tag
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.rows.backend import RowBackend
from tests.support.http import Answer, Http
from tests.support.redis_servers import redis_rows, shared_redis
from tests.support.thinking_edges import Edges, thinking_edges

ROUNDS = 30
ENGINES: dict[str, Callable[[], RowBackend]] = {
    "memory": MemoryRows,
    "redis": lambda: redis_rows(shared_redis().url),
}


@pytest.fixture(params=ENGINES)
async def edges(request: pytest.FixtureRequest) -> AsyncIterator[Edges]:
    rows = ENGINES[request.param]()
    async with thinking_edges("Hello there.", count=2, rows=rows, conversation_wait_ms=30_000) as running:
        yield running


async def ask(http: Http, session_id: str) -> Answer:
    body = {"model": "m", "input": "hi"}
    return await http.ask("POST", "/v1/responses", body, headers={"x-antiphon-session": session_id})


async def test_first_turns_at_the_same_time_are_of_one_tree(edges: Edges) -> None:
    prefix = RandomIds().hex(8)
    for number in range(ROUNDS):
        answers = await asyncio.gather(*(ask(http, f"{prefix}-{number}") for http in edges.https * 2))
        assert [answer.status for answer in answers] == [200] * 4, answers
        made = {answer.json["id"] for answer in answers}
        assert len({tree_tag(each) for each in made}) == 1
        head_id = (await edges.store.describe_session("default", f"{prefix}-{number}")).head_id
        assert head_id is not None
        chain = (await edges.http.get(f"/v1/responses/{head_id}/chain")).json["data"]
        assert {each["id"] for each in chain} == made
