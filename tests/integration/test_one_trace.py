"""One request is one trace, over edge, translator, engine and store, each a process of its own: all spans arrive at an
OTLP receiver with the right parents, and nothing that is exported, logged or counted has anything of the prompt."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from antiphon_core.jsons import loads
from antiphon_core.telemetry.spans import ATTRIBUTES
from tests.support.engine_plays import Play
from tests.support.fake_triton import FakeTriton, fake_triton
from tests.support.http import Http, PatientHttp
from tests.support.otlp_receiver import OtlpReceiver, Received, otlp_receiver
from tests.support.patience import until
from tests.support.ports import HOST, free_ports
from tests.support.served_models import END_ID, tokenizer, write_directory
from tests.support.system import Command

PROMPT, WORD, METADATA = "canary-prompt-51c0", "canary-answer-51c0", "canary-metadata-51c0"
TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"


@dataclass
class Fleet:
    """Four processes of Antiphon's, an engine and a receiver of traces."""

    http: Http
    receiver: OtlpReceiver
    triton: FakeTriton
    commands: dict[str, Command]
    metrics: dict[str, str]
    """Where each process serves its metrics."""

    def logged(self) -> list[dict[str, object]]:
        """The log lines of all processes."""
        lines = [line for command in self.commands.values() for line in command.lines if line.startswith("{")]
        return [loads(line) for line in lines]


@pytest.fixture
async def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    ids = [*tokenizer().encode(WORD), END_ID]
    async with otlp_receiver() as receiver, fake_triton() as triton, aiohttp.ClientSession() as session:
        triton.play(Play([[number] for number in ids]))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        running = ExitStack()
        try:
            commands, metrics = await asyncio.to_thread(_start, running, tmp_path, triton.endpoint)
            url = commands["edge"].wait_for(r"^edge +(http://\S+)/v1")[1]
            yield Fleet(PatientHttp(session, url), receiver, triton, commands, metrics)
        finally:
            await asyncio.to_thread(running.close)  # they export what they have left: the receiver must run meanwhile


def _start(running: ExitStack, folder: Path, endpoint: str) -> tuple[dict[str, Command], dict[str, str]]:
    profiles = folder / "profiles"
    profiles.mkdir()
    directory = write_directory(folder / "model")
    (profiles / "m.toml").write_text(
        f'name = "m"\ndirectory = "{directory}"\nendpoint = "{endpoint}"\nengine = "triton_tokens"\n'
    )
    store, translator, *ports = free_ports(6)
    where = {
        target: [f"--{target}-store={HOST}:{store}", f"--{target}-translator={HOST}:{translator}"]
        for target in ("edge", "worker")
    }
    options = {
        "store": [f"--store-port={store}", "--store-url=memory://"],
        "translator": [f"--translator-port={translator}", f"--translator-profiles={profiles}"],
        "edge": ["--edge-port=0", "--edge-drain-s=1", *where["edge"]],
        "worker": ["--worker-slots=1", "--worker-drain-s=1", *where["worker"]],
    }
    commands = {}
    for (target, more), port in zip(options.items(), ports, strict=True):
        command = Command("serve", f"--target={target}", "--log-json=true", f"--metrics-port={port}", *more)
        running.callback(command.stop)
        commands[target] = command
    for target, command in commands.items():
        command.wait_for(rf"^{target}\b")
    return commands, {target: f"http://{HOST}:{port}/metrics" for target, port in zip(options, ports, strict=True)}


def tree(spans: list[Received]) -> dict[str, str]:
    """The path of each span from the root, by its id."""
    by_id = {span.span_id: span for span in spans}

    def path(span: Received) -> Iterator[str]:
        if span.parent_id in by_id:
            yield from path(by_id[span.parent_id])
        elif span.parent_id:
            yield f"({span.parent_id})"
        name = re.sub(r"^antiphon\.\S+/", "", span.name)  # RPCs without their service
        yield f"{span.service.removeprefix('antiphon-')} {span.kind} {name}"

    return {span.span_id: " > ".join(path(span)) for span in spans}


CLIENT = f"({PARENT_ID}) > edge SERVER POST /v1/responses"
TURN = f"{CLIENT} > edge INTERNAL turn"
GENERATE = f"{TURN} > edge CLIENT Generate > translator SERVER Generate"
ATTACHED = Counter(
    [
        CLIENT,
        f"{CLIENT} > edge CLIENT BeginTurn",
        f"{CLIENT} > edge CLIENT BeginTurn > store SERVER BeginTurn",
        TURN,
        f"{TURN} > edge CLIENT Generate",
        GENERATE,
        f"{GENERATE} > translator INTERNAL chat m",
        f"{GENERATE} > translator INTERNAL chat m > translator INTERNAL build prompt",
        f"{GENERATE} > translator INTERNAL chat m > translator CLIENT chat m",
        f"{TURN} > edge CLIENT CommitTurn",
        f"{TURN} > edge CLIENT CommitTurn > store SERVER CommitTurn",
    ]
)


async def test_one_request_is_one_trace_over_all_services(fleet: Fleet) -> None:
    before = (await fleet.http.create(model="m", input="Hello.")).json["id"]
    headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=1", "x-request-id": "req-of-the-client"}
    members = {"model": "m", "input": PROMPT, "previous_response_id": before, "metadata": {"a": METADATA}}
    answer = await fleet.http.ask("POST", "/v1/responses", members, headers=headers)
    assert answer.json["status"] == "completed"
    spans = await fleet.receiver.until(TRACE_ID, ATTACHED.total())
    assert Counter(tree(spans).values()) == ATTACHED
    assert not [span for span in spans if span.is_error]
    engine = next(span for span in spans if span.kind == "CLIENT" and span.name == "chat m")
    turn = next(span for span in spans if span.kind == "INTERNAL" and span.name == "chat m")
    assert engine.attributes["server.address"] == fleet.triton.endpoint
    assert turn.attributes["gen_ai.usage.output_tokens"] == answer.json["usage"]["output_tokens"]
    asked = fleet.triton.metadata[-1]
    assert asked["traceparent"] == f"00-{TRACE_ID}-{engine.span_id}-01"
    assert (asked["tracestate"], asked["x-request-id"]) == ("vendor=1", "req-of-the-client")


async def test_a_background_response_stays_in_the_trace_of_its_request(fleet: Fleet) -> None:
    members = {"model": "m", "input": PROMPT, "background": True}
    created = (await fleet.http.ask("POST", "/v1/responses", members, headers={"traceparent": TRACEPARENT})).json
    answer = await fleet.http.get(f"/v1/responses/{created['id']}?stream=true")
    assert answer.events[-1]["type"] == "response.completed"
    while not (jobs := [span for span in fleet.receiver.trace(TRACE_ID) if span.name == "process responses"]):
        await fleet.receiver.until(TRACE_ID, len(fleet.receiver.trace(TRACE_ID)) + 1)
    assert [(job.service, job.kind, job.attributes["antiphon.job.attempt"]) for job in jobs] == [
        ("antiphon-worker", "CONSUMER", 1)
    ]
    paths = tree(fleet.receiver.trace(TRACE_ID))
    assert paths[jobs[0].span_id] == f"{CLIENT} > worker CONSUMER process responses"


async def test_nothing_that_leaves_a_process_has_content(fleet: Fleet) -> None:
    for members in ({"stream": True}, {"background": True}, {"temperature": "warm"}, {"previous_response_id": PROMPT}):
        asked = {"model": "m", "input": PROMPT, "instructions": PROMPT, "metadata": {"a": METADATA}, **members}
        created = await fleet.http.ask("POST", "/v1/responses", asked, headers={"traceparent": TRACEPARENT})
        if members == {"background": True}:
            await fleet.http.get(f"/v1/responses/{created.json['id']}?stream=true")
    metrics = [(await fleet.http.session.get(url)) for url in fleet.metrics.values()]
    texts = [await answer.read() for answer in metrics]
    for command in reversed(fleet.commands.values()):
        await asyncio.to_thread(command.stop)
    logs = "".join(line for command in fleet.commands.values() for line in command.lines).encode()
    assert fleet.receiver.trace(TRACE_ID)
    assert {name for span in fleet.receiver.spans for name in span.attributes} <= ATTRIBUTES
    for canary in (PROMPT, WORD, METADATA):
        for left in (*fleet.receiver.exported, *texts, logs):
            assert canary.encode() not in left


async def test_the_ids_of_a_request_are_in_the_logs_and_metrics_of_all_that_served_it(fleet: Fleet) -> None:
    fleet.triton.script = (b"\xff",)  # nothing that a model says
    headers = {"traceparent": TRACEPARENT, "x-request-id": "req-7"}
    failed = await fleet.http.ask("POST", "/v1/responses", {"model": "m", "input": PROMPT}, headers=headers)
    assert failed.status >= 500
    lines: list[dict[str, Any]] = []

    def both_have_logged() -> bool:
        lines[:] = [line for line in fleet.logged() if line.get("request_id") == "req-7"]
        of_response = [line for line in lines if str(line.get("response_id", "")).startswith("resp_")]
        return {str(line["logger"]).partition(".")[0] for line in of_response} >= {
            "antiphon_edge",
            "antiphon_translator",
        }

    await until(both_have_logged, "edge and translator have logged")
    assert {line["trace_id"] for line in lines} == {TRACE_ID}
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with fleet.http.session.get(fleet.metrics["edge"], headers=accept) as answer:
        text = await answer.text()
    exemplars = [line for line in text.splitlines() if f'trace_id="{TRACE_ID}"' in line]
    assert {line.partition("{")[0] for line in exemplars} >= {
        "antiphon_http_request_duration_seconds_bucket",
        "antiphon_turn_duration_seconds_bucket",
    }
