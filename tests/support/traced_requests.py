"""Sends requests through four processes of Antiphon, which export their spans to a real trace server, and collects all
data that the requests leave."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from antiphon.otlp import tracer_of
from antiphon_core.jsons import loads
from antiphon_core.telemetry.spans import SpanKind
from antiphon_core.telemetry.trace_context import TraceContext
from tests.support.engine_plays import Play
from tests.support.fake_triton import FakeTriton, fake_triton
from tests.support.http import Answer, Http, RetryingHttp
from tests.support.phoenix.exported import ExportedSpan, spans_of
from tests.support.phoenix.server import Phoenix, phoenix
from tests.support.served_models import END_ID, tokenizer, write_profile
from tests.support.system import Command, Processes
from tests.support.waiting import until

PROMPT, WORD, METADATA = "canary-prompt-51c0", "canary-answer-51c0", "canary-metadata-51c0"
PARENT_ID = "b7ad6b7169203331"
STREAMED, QUEUED, REJECTED, FAILED, OVER_HTTP = (digit * 32 for digit in "abcde")
"""Trace ids: one for each kind of request, and one for a span that is exported over HTTP."""
_CONTENT = {"model": "m", "input": PROMPT, "instructions": PROMPT, "metadata": {"a": METADATA}}


@dataclass(frozen=True)
class Answers:
    streamed: Answer
    stored: Answer
    """The streamed response, retrieved from the store."""
    queued: Answer
    """The events of the background response."""
    failed: Answer
    metrics: bytes


@dataclass(frozen=True)
class Story:
    """All data that exist after the processes have stopped."""

    answers: Answers
    triton: FakeTriton
    shown: list[dict[str, Any]]
    """The spans in the trace server."""
    traces: list[dict[str, Any]]
    exported: list[bytes]
    """The gRPC requests to the trace server."""
    left: dict[str, bytes]
    """All output of the processes and all data of the trace server, by location."""
    logged: list[dict[str, Any]]

    def spans(self, trace_id: str) -> list[ExportedSpan]:
        return [span for span in spans_of(self.exported) if span.trace_id == trace_id]


@dataclass(frozen=True)
class _Fleet:
    http: Http
    commands: dict[str, Command]
    metrics: dict[str, str]
    """The URL of each process's metrics."""


async def tell(folder: Path, server_settings: Mapping[str, str], settings: Mapping[str, str]) -> Story:
    """Runs all requests once. The settings are environment variables of the trace server and of Antiphon's processes;
    `settings` name the trace server by its usual ports."""
    with phoenix(folder / "phoenix", server_settings) as server:
        environ = {name: value.replace(":4317", f":{server.grpc_port}") for name, value in settings.items()}
        async with fake_triton() as triton, aiohttp.ClientSession() as session:
            async with _fleet(folder, triton.endpoint, environ, session) as fleet:
                await server.ready(session)
                answers = await _ask(fleet, triton)
            await asyncio.to_thread(_export_over_http, server)
            shown = await server.spans(session, len([*spans_of(server.exported())]) + 1)
            traces, pages = await server.traces(session), await server.pages(session)
    lines = [line for command in fleet.commands.values() for line in command.lines]
    left = {
        "exported": b"".join(server.exported()),
        "pages": pages,
        "kept": server.kept(),
        "metrics": answers.metrics,
        "logs": "".join(lines).encode(),
    }
    logged = [loads(line) for line in lines if line.startswith("{")]
    return Story(answers, triton, shown, traces, server.exported(), left, logged)


async def _ask(fleet: _Fleet, triton: FakeTriton) -> Answers:
    triton.play(Play([[number] for number in [*tokenizer().encode(WORD), END_ID]]))
    http = fleet.http
    before = (await http.create(model="m", input="Hello.")).json["id"]
    streamed = await _send(http, STREAMED, {"stream": True, "previous_response_id": before})
    stored = await http.get(f"/v1/responses/{streamed.events[-1]['response']['id']}")
    created = await _send(http, QUEUED, {"background": True})
    queued = await http.get(f"/v1/responses/{created.json['id']}?stream=true")
    for mistake in ({"temperature": "warm"}, {"previous_response_id": PROMPT}):
        assert (await _send(http, REJECTED, mistake)).status == 400
    triton.script = (b"\xff",)  # not valid output of a model
    failed = await _send(http, FAILED, {})
    metrics = b"".join([await _metrics(http.session, url) for url in fleet.metrics.values()])
    return Answers(streamed, stored, queued, failed, metrics)


async def _send(http: Http, trace_id: str, members: Mapping[str, Any]) -> Answer:
    headers = {
        "traceparent": f"00-{trace_id}-{PARENT_ID}-01",
        "tracestate": "vendor=1",
        "x-request-id": f"req-{trace_id[:4]}",
    }
    return await http.ask("POST", "/v1/responses", {**_CONTENT, **members}, headers=headers)


async def _metrics(session: aiohttp.ClientSession, url: str) -> bytes:
    """Returns the metrics as text with exemplars."""
    async with session.get(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"}) as answer:
        return await answer.read()


def _export_over_http(server: Phoenix) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        patch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        tracer = tracer_of(os.environ, service="test", version="1")
    assert tracer is not None
    tracer.start("over HTTP", SpanKind.SERVER, {}, TraceContext(OVER_HTTP, PARENT_ID, is_sampled=True)).end()
    tracer.close()


@asynccontextmanager
async def _fleet(
    folder: Path, engine: str, environ: Mapping[str, str], session: aiohttp.ClientSession
) -> AsyncIterator[_Fleet]:
    """Runs store, translator, edge and worker, which export their remaining spans before the block ends."""
    options = {
        "store": [],
        "translator": [],
        "edge": ["--edge-drain-s=1"],
        "worker": ["--worker-slots=1", "--worker-drain-s=1"],
    }
    logged = {target: ["--log-json=true", *more] for target, more in options.items()}
    processes = Processes(write_profile(folder, engine), logged, environ=environ)
    try:
        await asyncio.to_thread(processes.start)
        metrics = {target: processes.metrics_url(target) for target in options}
        yield _Fleet(RetryingHttp(session, processes.url), processes.commands, metrics)
    finally:
        await asyncio.to_thread(processes.stop)
    await until(lambda: not any(each.is_printing for each in processes.commands.values()), "all lines are read")
