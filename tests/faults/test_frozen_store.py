"""A store process that is stopped (SIGSTOP): requests that need the store get its outage within a second, others are
served, and all data are there after the store continues."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.clock import SystemClock
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, dumps, loads
from antiphon_edge.operations.table import OPERATIONS
from antiphon_edge.turns.turn_timing import JOB_LEASE_MS
from antiphon_store.client import StoreClient
from tests.support.http import Answer, Http, RetryingHttp
from tests.support.in_process import running
from tests.support.system import Command, serve
from tests.support.thinking_edges import PausableEngine, losable
from tests.support.waiting import least

READINESS = "/v1/health/ready"
GUARANTEES = Path(__file__).parents[2] / "docs/guarantees.md"
SOON_S = 1.5  # a second, and a tolerance for the machine


@dataclass
class System:
    http: Http
    store: Command
    engine: PausableEngine
    names: dict[str, str]

    async def ask(self, method: str, path: str, body: Object | None = None, **options: Any) -> Answer:
        if body is not None:
            body = loads(re.sub(r'"{(\w+)}"', lambda name: f'"{self.names[name[1]]}"', dumps(body).decode()).encode())
        return await self.http.ask(method, path.format(**self.names), body, **options)

    @contextmanager
    def frozen(self) -> Any:
        self.store.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.store.process.send_signal(signal.SIGCONT)


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    engine = PausableEngine("Hello there.")
    with serve("store", f"--store-url=sqlite:///{tmp_path / 'store.db'}") as (command, address):
        async with (
            StoreClient(address) as store,
            running(translator=losable(engine, SystemClock()), store=store) as system,
        ):
            http = system.http
            said, unwanted = [(await http.create(model="m", input="hi")).json for _ in range(2)]
            items = [{"role": "user", "content": "hi"}]
            conversation = (await http.ask("POST", "/v1/conversations", {"items": items})).json
            listed = (await http.get(f"/v1/conversations/{conversation['id']}/items")).json
            names = {
                "response": said["id"],
                "unwanted": unwanted["id"],
                "conversation": conversation["id"],
                "prompt": (await http.ask("POST", "/v1/prompts", {"instructions": "hi"})).json["id"],
                "item": listed["data"][0]["id"],
            }
            yield System(http, command, engine, names)


ASKED: list[tuple[str, str, Object | None]] = [
    ("GET", "/v1/responses/{response}", None),
    ("GET", "/v1/responses/{response}?stream=true", None),
    ("GET", "/v1/responses/{response}/input_items", None),
    ("DELETE", "/v1/responses/{unwanted}", None),
    ("POST", "/v1/responses/{response}/cancel", None),
    ("GET", "/v1/conversations/{conversation}", None),
    ("POST", "/v1/conversations/{conversation}", {"metadata": {"a": "b"}}),
    ("DELETE", "/v1/conversations/{conversation}", None),
    ("GET", "/v1/conversations/{conversation}/items", None),
    ("GET", "/v1/conversations/{conversation}/items/{item}", None),
    ("DELETE", "/v1/conversations/{conversation}/items/{item}", None),
    ("POST", "/v1/conversations/{conversation}/items", {"items": [{"role": "user", "content": "hi"}]}),
    ("POST", "/v1/conversations", {}),
    ("POST", "/v1/responses", {"model": "m", "input": "hi", "previous_response_id": "{response}"}),
    ("POST", "/v1/responses", {"model": "m", "input": "hi", "conversation": "{conversation}"}),
    ("POST", "/v1/responses", {"model": "m", "input": [{"type": "item_reference", "id": "{item}"}]}),
    ("POST", "/v1/responses", {"model": "m", "input": "hi"}),
    ("POST", "/v1/responses", {"model": "m", "input": "hi", "stream": True}),
    ("POST", "/v1/responses", {"model": "m", "input": "hi", "background": True}),
    ("GET", "/v1/responses?conversation={conversation}", None),
    ("POST", "/v1/responses/input_tokens", {"model": "m", "input": "hi", "previous_response_id": "{response}"}),
    ("POST", "/v1/responses/compact", {"model": "m", "input": "hi", "previous_response_id": "{response}"}),
    ("GET", "/v1/responses/{response}/tree", None),
    ("GET", "/v1/responses/{response}/children", None),
    ("GET", "/v1/responses/{response}/siblings", None),
    ("GET", "/v1/responses/{response}/leaves", None),
    ("GET", "/v1/responses/{response}/chain", None),
    ("GET", "/v1/responses/{response}/cache", None),
    ("POST", "/v1/sessions/{conversation}/fork", {}),
    ("GET", "/v1/approvals", None),
    ("POST", "/v1/prompts", {"instructions": "hi"}),
    ("GET", "/v1/prompts", None),
    ("GET", "/v1/prompts/{prompt}", None),
    ("POST", "/v1/prompts/{prompt}/versions", {"instructions": "hello"}),
    ("DELETE", "/v1/prompts/{prompt}", None),
]
SERVED: list[tuple[str, str, Object | None]] = [
    ("POST", "/v1/responses", {"model": "m", "input": "hi", "store": False}),
    ("POST", "/v1/responses/input_tokens", {"model": "m", "input": "hi"}),
    ("POST", "/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "hi"}]}),
    ("GET", "/v1/models", None),
    ("GET", "/v1/models/m", None),
    ("GET", "/v1/metadata", None),
    ("GET", "/v1/version", None),
    ("GET", "/v1/metrics", None),
    ("GET", "/v1/health/live", None),
    ("GET", READINESS, None),
    ("GET", "/openapi.json", None),
    ("GET", "/docs", None),
]


def operation_of(method: str, path: str) -> str:
    """The method and path of an operation, as the route table has them."""
    routes = (f"{each.method} {each.path}" for each in OPERATIONS)
    asked = f"{method} {path.partition('?')[0]}"
    exact = [each for each in routes if each == asked]
    as_patterns = {re.sub(r"\{\w+\}", "[^/]+", f"{each.method} {each.path}"): each for each in OPERATIONS}
    found = exact or [f"{each.method} {each.path}" for form, each in as_patterns.items() if re.fullmatch(form, asked)]
    return found[0]


def test_the_guarantees_list_every_route_that_needs_the_store() -> None:
    refused, served = ({operation_of(method, path) for method, path, _ in each} for each in (ASKED, SERVED))
    assert refused | served == {f"{each.method} {each.path}" for each in OPERATIONS}
    listed = GUARANTEES.read_text().partition("\nRequests that need the store: ")[2].partition(". ")[0]
    assert {" ".join(each.split()) for each in re.findall(r"`([^`]+)`", listed)} == refused


async def require_soon_rejected(system: System, method: str, path: str, body: Object | None) -> None:
    async def rejection_s() -> float:
        begin = asyncio.get_running_loop().time()
        answer = await system.ask(method, path, body)
        assert (answer.status, answer.headers.get("retry-after")) == (503, "1"), f"{method} {path}"
        return asyncio.get_running_loop().time() - begin

    assert await least(rejection_s, most=SOON_S) <= SOON_S, f"{method} {path}"


async def test_routes_that_need_a_frozen_store_are_rejected_and_others_served(system: System) -> None:
    asked_before = len(system.engine.requests)
    with system.frozen():
        await require_soon_rejected(system, *ASKED[0])  # until then the last report of room may still count
        await asyncio.gather(*(require_soon_rejected(system, *asked) for asked in ASKED))
        assert len(system.engine.requests) == asked_before  # no model generated output that could not be stored
        for method, path, body in SERVED:
            answer = await system.ask(method, path, body)
            assert answer.status == 200 or path == READINESS, f"{method} {path}"
    patient = replace(system, http=RetryingHttp(system.http.session, system.http.url))
    assert (await patient.ask("GET", "/v1/responses/{response}")).json["status"] == "completed"


async def test_a_turn_whose_store_was_frozen_for_longer_than_its_lease_goes_on(system: System) -> None:
    system.engine.pause_at = 1
    body, headers = {"model": "m", "input": "hi", "stream": True}, {"Idempotency-Key": "k"}
    asking = asyncio.create_task(system.ask("POST", "/v1/responses", body, headers=headers))
    await system.engine.paused.wait()
    with system.frozen():
        await asyncio.sleep(JOB_LEASE_MS / 1000 + 1)
    system.engine.go.set()
    log = (await asking).events
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert (log[-1]["type"], fold(log)) == ("response.completed", log[-1]["response"])
    assert (await system.ask("POST", "/v1/responses", body, headers=headers)).events == log
    assert len(system.engine.requests) == 3
