"""A real Prometheus reads four processes of Antiphon's under load: every panel and every recorded rule has data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from k8s.components.grafana.panels import DASHBOARDS
from tests.support.engine_plays import Ending, Play
from tests.support.fake_triton import FakeTriton, fake_triton
from tests.support.http import Http
from tests.support.manifests import K8S
from tests.support.patience import PATIENCE_S
from tests.support.ports import HOST, free_ports
from tests.support.prometheus_server import Prometheus, prometheus
from tests.support.served_models import END_ID, tokenizer, write_directory
from tests.support.system import Command

REQUESTS_PER_MINUTE = 60
RULES = K8S / "components" / "prometheus" / "rules.yaml"
# Series with labels that begin with an accident that this load does not have: another process of the same kind.
ACCIDENTS = ("antiphon_takeovers_total", "antiphon_engine_migrations_total", "antiphon_engine_endpoint_evictions_total")


@dataclass
class Watched:
    http: Http
    triton: FakeTriton
    prometheus: Prometheus


@pytest.fixture(scope="module")
def rules() -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["spec"]
    for group in spec["groups"]:
        group.pop("interval", None)
    return spec


@pytest.fixture
async def watched(tmp_path: Path, rules: dict[str, Any]) -> AsyncIterator[Watched]:
    async with fake_triton() as triton, aiohttp.ClientSession() as session:
        running = ExitStack()
        try:
            url, ports = await asyncio.to_thread(_start, running, tmp_path, triton.endpoint)
            server = running.enter_context(prometheus(tmp_path, ports, rules))
            yield Watched(Http(session, url), triton, server)
        finally:
            await asyncio.to_thread(running.close)


async def test_every_panel_and_every_recorded_rule_has_data(watched: Watched, rules: dict[str, Any]) -> None:
    load = asyncio.create_task(_load(watched))
    queries = [*_panels(), *(rule["expr"] for group in rules["groups"] for rule in group["rules"] if "record" in rule)]
    missing = set(queries)
    try:
        async with asyncio.timeout(3 * PATIENCE_S):
            while missing and not load.done():
                missing = {query for query in missing if not await watched.prometheus.series(query)}
                await asyncio.sleep(0.5)
    except TimeoutError:
        pass
    finally:
        load.cancel()
        await asyncio.wait([load])
    assert not missing


def _panels() -> list[str]:
    """The queries of all panels, for one namespace and a short time."""
    queries = [query for panels in DASHBOARDS.values() for panel in panels for query, _ in panel.queries]
    plain = [query.replace("$__rate_interval", "30s").replace("$namespace", ".*") for query in queries]
    return [query for query in plain if not any(name in query for name in ACCIDENTS)]


async def _load(watched: Watched) -> None:
    """Turns of every kind and fate, again and again."""
    number = 0
    while True:
        number += 1
        _plays(watched.triton, Ending.BY_ITSELF)
        answer = await watched.http.create(model="m", input="Hello.")
        await watched.http.create(model="m", input="Hello.", background=True)
        for _ in range(2):  # the second is a replay
            await _keyed(watched.http, f"key-{number}")
        if answer.status == 200:
            await _at_once(watched.http, answer.json["id"])
        await _hang_up(watched.http)
        _plays(watched.triton, Ending.ERROR)
        await watched.http.create(model="m", input="Hello.")


def _plays(triton: FakeTriton, ending: Ending) -> None:
    last = [[END_ID]] if ending is Ending.BY_ITSELF else []
    triton.play(Play([*([one] for one in tokenizer().encode("a few words")), *last], ending, pause_s=0.01))


async def _keyed(http: Http, key: str) -> None:
    body = {"model": "m", "input": "Hello.", "stream": True}
    await http.ask("POST", "/v1/responses", body, headers={"idempotency-key": key})


async def _at_once(http: Http, response_id: str) -> None:
    """Two turns in one conversation, of which one is refused."""
    conversation = (await http.post("/v1/conversations", {})).json.get("id")
    if conversation:
        turn = {"model": "m", "input": "Hello.", "conversation": conversation}
        await asyncio.gather(http.create(**turn), http.create(**turn))


async def _hang_up(http: Http) -> None:
    body = {"model": "m", "input": "Hello.", "stream": True}
    async with http.session.post(f"{http.url}/v1/responses", json=body) as answer:
        await answer.content.readany()


def _start(running: ExitStack, folder: Path, endpoint: str) -> tuple[str, dict[str, int]]:
    profiles = folder / "profiles"
    profiles.mkdir()
    directory = write_directory(folder / "model")
    profile = f'name = "m"\ndirectory = "{directory}"\nendpoint = "{endpoint}"\nengine = "triton_tokens"\n'
    (profiles / "m.toml").write_text(profile)
    store, translator, *ports = free_ports(6)
    where = [f"--edge-store={HOST}:{store}", f"--edge-translator={HOST}:{translator}"]
    options = {
        "store": [f"--store-port={store}", "--store-url=memory://", "--store-sweep-s=1", "--store-default-ttl-s=1"],
        "translator": [f"--translator-port={translator}", f"--translator-profiles={profiles}"],
        "worker": ["--worker-slots=2", "--worker-drain-s=1", *where],
        "edge": ["--edge-port=0", "--edge-drain-s=1", f"--edge-requests-per-minute={REQUESTS_PER_MINUTE}", *where],
    }
    metrics = dict(zip(options, ports, strict=True))
    commands = {}
    for target, more in options.items():
        commands[target] = Command("serve", f"--target={target}", f"--metrics-port={metrics[target]}", *more)
        running.callback(commands[target].stop)
    for target, command in commands.items():
        command.wait_for(rf"^{target}\b")
    return commands["edge"].wait_for(r"^edge +(http://\S+)/v1")[1], metrics
