"""Four processes of Antiphon and a real Prometheus that scrapes them, under a load of turns of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.support.engine_plays import Ending, Play
from tests.support.fake_triton import INPUTS, TOKENS, FakeTriton, fake_triton, response
from tests.support.http import Http
from tests.support.manifests import K8S
from tests.support.prometheus_server import Prometheus, prometheus
from tests.support.served_models import END_ID, tokenizer, write_profile
from tests.support.system import Processes
from tests.support.web import Page, web_server

TRITON_METRICS = b"""
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 1
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.25
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 6240
"""
TIMES = {"queue_ns": 2_000_000, "prefill_ns": 30_000_000}
CACHED = {"cached_tokens": 1}
TIMED_TOKENS = replace(
    TOKENS,
    inputs={**INPUTS, "return_perf_metrics": "TYPE_BOOL"},
    outputs=(*TOKENS.outputs, *TIMES, *CACHED),
    message=lambda messages, number: response(
        {"sequence_length": [len(messages[number])], "output_ids": messages[number], **TIMES, **CACHED}
    ),
)
"""A token-level model that measures its queue and its prefill, and caches hardly anything."""
RULES = K8S / "components" / "prometheus" / "rules.yaml"


@dataclass
class MonitoredSystem:
    http: Http
    triton: FakeTriton
    prometheus: Prometheus


def rules() -> dict[str, Any]:
    """Returns the rules of the cluster, evaluated at the scrape interval."""
    spec: dict[str, Any] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["spec"]
    for group in spec["groups"]:
        group.pop("interval", None)
    return spec


@asynccontextmanager
async def monitored_system(folder: Path, *, requests_per_minute: int) -> AsyncIterator[MonitoredSystem]:
    """Runs a system that is ready to answer. Its rate limit is `requests_per_minute`."""
    async with fake_triton(TIMED_TOKENS) as triton, web_server() as shown, aiohttp.ClientSession() as session:
        shown.pages["/metrics"] = Page([TRITON_METRICS])
        options = {
            "store": ["--store-sweep-s=1", "--store-default-ttl-s=1"],
            "translator": [],
            "worker": ["--worker-slots=2", "--worker-drain-s=1"],
            "edge": ["--edge-drain-s=1", f"--edge-requests-per-minute={requests_per_minute}"],
        }
        profiles = write_profile(folder, triton.endpoint)
        with (profiles / "m.toml").open("a") as profile:  # one server by two names, between which turns are placed
            profile.write(f'endpoints = ["{triton.endpoint}", "localhost:{triton.endpoint.rpartition(":")[2]}"]\n')
            profile.write(f"metrics_port = {shown.port}\n")
        processes = Processes(profiles, options)
        try:
            await asyncio.to_thread(processes.start)
            with prometheus(folder, processes.metrics_ports, rules()) as server:
                yield MonitoredSystem(Http(session, processes.url), triton, server)
        finally:
            await asyncio.to_thread(processes.stop)


async def load(system: MonitoredSystem, name: str = "", *, pause_s: float = 0.0) -> None:
    """Sends turns of every kind and outcome repeatedly, with a pause between the rounds."""
    number = 0
    while True:
        number += 1
        _plays(system.triton, Ending.BY_ITSELF)
        answer = await system.http.create(model="m", input="Hello.")
        await system.http.create(model="m", input="Hello.", background=True)
        for _ in range(2):  # the second request is a replay
            await _keyed(system.http, f"key-{name}-{number}")
        if answer.status == 200:
            await system.http.create(model="m", input="Go on.", previous_response_id=answer.json["id"])
            await _at_once(system.http, answer.json["id"])
        await _hang_up(system.http)
        _plays(system.triton, Ending.ERROR)
        await system.http.create(model="m", input="Hello.")
        await asyncio.sleep(pause_s)


def _plays(triton: FakeTriton, ending: Ending) -> None:
    last = [[END_ID]] if ending is Ending.BY_ITSELF else []
    triton.play(Play([*([one] for one in tokenizer().encode("a few words")), *last], ending, pause_s=0.01))


async def _keyed(http: Http, key: str) -> None:
    body = {"model": "m", "input": "Hello.", "stream": True}
    await http.ask("POST", "/v1/responses", body, headers={"idempotency-key": key})


async def _at_once(http: Http, response_id: str) -> None:
    """Sends two concurrent turns in one conversation, one of which is rejected."""
    conversation = (await http.post("/v1/conversations", {})).json.get("id")
    if conversation:
        turn = {"model": "m", "input": "Hello.", "conversation": conversation}
        await asyncio.gather(http.create(**turn), http.create(**turn))


async def _hang_up(http: Http) -> None:
    body = {"model": "m", "input": "Hello.", "stream": True}
    async with http.session.post(f"{http.url}/v1/responses", json=body) as answer:
        await answer.content.readany()
