from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from antiphon_core import audit
from antiphon_core.errors import InternalError, ResponseNotFound, StaleFence, StoreUnavailable, Unavailable
from antiphon_core.jsons import loads
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.message_types import MessageType
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import Call, RpcServer
from antiphon_core.telemetry import correlation, metrics
from antiphon_core.telemetry.correlation import Correlation
from antiphon_core.telemetry.instruments import HistogramChild, Instrument
from antiphon_core.telemetry.spans import SpanKind
from antiphon_protos.antiphon.store import v1
from antiphon_protos.antiphon.store.internal import v1 as internal
from tests.support.recorded_spans import RecordingTracer, recorded
from tests.support.waiting import WAIT_MAX_S, until

GET = STORE.methods["GetResponseRecord"]
READ = STORE.methods["ReadEvents"]
EVENTS: MessageType = READ.response


class Service:
    def __init__(self) -> None:
        self.seen: list[Correlation] = []
        self.is_reading = asyncio.Event()

    async def get(self, request: Any, _call: Call) -> Any:
        self.seen.append(correlation.current())
        errors = {"missing": ResponseNotFound.of("missing"), "stale": StaleFence.of("s", token=1), "bug": KeyError("x")}
        if request.id in errors:
            raise errors[request.id]
        return v1.GetResponseRecordResponse(record=v1.ResponseRecord(id=request.id))

    async def read_events(self, _request: Any, _call: Call) -> AsyncGenerator[Any, None]:
        yield EVENTS.strict(first_sequence=0)
        self.is_reading.set()
        await asyncio.Event().wait()

    async def ready(self) -> None:
        pass


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def client(service: Service) -> AsyncIterator[RpcClient]:
    server = RpcServer()
    server.add(STORE, {"GetResponseRecord": service.get, "ReadEvents": service.read_events}, ready=service.ready)
    port = await server.start("127.0.0.1", 0)
    async with RpcClient(f"127.0.0.1:{port}", STORE, unavailable=StoreUnavailable) as client:
        yield client
    await server.drain(0)


@pytest.fixture
def tracer() -> Any:
    with recorded() as tracer:
        yield tracer


def count(histogram: Instrument[HistogramChild], code: str) -> int:
    return histogram.of("store", "GetResponseRecord", code).count


async def until_ended(tracer: RecordingTracer) -> None:
    """Waits until every span has ended, because the server ends a call after its answer."""
    async with asyncio.timeout(WAIT_MAX_S):
        while not all(span.has_ended for span in tracer.spans):
            await asyncio.sleep(0)


async def audit_lines(path: Path, count: int) -> list[str]:
    """Waits for `count` lines of the audit log, because the server writes a line after its answer."""
    async with asyncio.timeout(WAIT_MAX_S):
        while len(lines := lines_of(path)) < count:
            await asyncio.sleep(0.001)
    return lines


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.parametrize(
    ("asked", "code", "error"),
    [
        ("r", "OK", None),
        ("missing", "NOT_FOUND", ResponseNotFound),
        ("bug", "INTERNAL", InternalError),
    ],
)
async def test_both_ends_take_the_duration_with_the_code(
    client: RpcClient, asked: str, code: str, error: type[Exception] | None
) -> None:
    before = count(metrics.RPC_SERVER, code), count(metrics.RPC_CLIENT, code)
    with nullcontext() if error is None else pytest.raises(error):
        await client.call("GetResponseRecord", v1.GetResponseRecordRequest(id=asked))
    assert count(metrics.RPC_CLIENT, code) == before[1] + 1
    async with asyncio.timeout(WAIT_MAX_S):
        while count(metrics.RPC_SERVER, code) == before[0]:  # the server ends the call after its answer
            await asyncio.sleep(0)
    assert count(metrics.RPC_SERVER, code) == before[0] + 1


async def test_conflicts_of_the_store_are_counted_by_their_error(client: RpcClient) -> None:
    conflicts = metrics.STORE_CONFLICTS.of("GetResponseRecord", "StaleFence")
    before = conflicts.value
    with pytest.raises(StaleFence):
        await client.call("GetResponseRecord", v1.GetResponseRecordRequest(id="stale"))
    assert conflicts.value == before + 1


async def test_the_servers_span_is_below_the_clients(
    client: RpcClient, service: Service, tracer: RecordingTracer
) -> None:
    correlation.begin(Correlation("req_1", "resp_1"))
    await client.call("GetResponseRecord", v1.GetResponseRecordRequest(id="r"))
    await until_ended(tracer)
    made, served = tracer.spans
    assert (made.kind, made.name, made.parent) == (SpanKind.CLIENT, GET.path[1:], None)
    assert (served.kind, served.name, served.parent) == (SpanKind.SERVER, GET.path[1:], made.trace)
    assert service.seen == [Correlation("req_1", "resp_1", trace=served.trace)]
    assert correlation.current() == Correlation("req_1", "resp_1")
    assert {span.facts["rpc.response.status_code"] for span in tracer.spans} == {"OK"}


async def test_an_error_marks_both_spans(client: RpcClient, tracer: RecordingTracer) -> None:
    with pytest.raises(ResponseNotFound):
        await client.call("GetResponseRecord", v1.GetResponseRecordRequest(id="missing"))
    await until_ended(tracer)
    assert [(span.error, span.facts["rpc.response.status_code"]) for span in tracer.spans] == [
        ("ResponseNotFound", "NOT_FOUND"),
        ("ResponseNotFound", "NOT_FOUND"),
    ]


async def test_the_reader_of_a_stream_is_not_inside_the_streams_span(
    client: RpcClient, service: Service, tracer: RecordingTracer
) -> None:
    open_streams = metrics.RPC_STREAMS.of("store", "ReadEvents")
    answers = client.stream("ReadEvents", internal.ReadEventsRequest())
    await anext(answers)
    await service.is_reading.wait()
    assert correlation.current() == Correlation()
    assert open_streams.value == 1
    await answers.aclose()
    assert tracer.spans[0].has_ended
    await until(lambda: not open_streams.value, "the end of the stream")


async def test_an_audit_line_has_the_ids_of_the_request_and_its_result(client: RpcClient, tmp_path: Path) -> None:
    audit.configure(tmp_path / "audit")
    try:
        await client.call("GetResponseRecord", v1.GetResponseRecordRequest(id="resp_1"), tenant="acme")
        with pytest.raises(ResponseNotFound):
            await client.call("GetResponseRecord", v1.GetResponseRecordRequest(id="missing"), tenant="acme")
        found, missing = map(loads, await audit_lines(tmp_path / "audit", 2))
    finally:
        audit.configure(None)
    assert found | {"ts": 0} == {
        "ts": 0,
        "service": "store",
        "caller": "ipv4:127.0.0.1",
        "peer": "ipv4:127.0.0.1",
        "tenant": "acme",
        "action": GET.path,
        "ids": ["resp_1"],
        "result": "OK",
        "request_id": "",
    }
    assert (missing["ids"], missing["result"]) == (["missing"], "NOT_FOUND")


@pytest.mark.parametrize("is_required", [False, True])
async def test_audit_log_that_is_full_rejects_calls_only_if_it_is_required(
    client: RpcClient, service: Service, is_required: bool
) -> None:
    audit.configure(Path("/dev/full"), is_required=is_required)
    try:
        with pytest.raises(Unavailable, match="audit log") if is_required else nullcontext():
            await client.call("GetResponseRecord", v1.GetResponseRecordRequest(id="resp_1"))
    finally:
        audit.configure(None)
    assert len(service.seen) == (0 if is_required else 1)
