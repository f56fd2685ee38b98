from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import grpc
import pytest
from tritonclient.grpc import service_pb2

from antiphon_core.flow import Flow
from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.correlation import Correlation
from antiphon_http2.client.client import GrpcStreams
from antiphon_http2.errors import GrpcError
from antiphon_translator.engines.triton_transport import INFER_PATH, GrpcAioStreams, InferStreams
from tests.support.engine_plays import Ending
from tests.support.fake_triton import FakeTriton, fake_triton, final_response, token_response
from tests.support.waiting import WAIT_MAX_S

REQUEST = service_pb2.ModelInferRequest(model_name="tensorrt_llm", id="r").SerializeToString()


@pytest.fixture
async def fake() -> AsyncIterator[FakeTriton]:
    async with fake_triton() as running:
        yield running


@pytest.fixture(params=["lean", "grpc"])
async def streams(fake: FakeTriton, request: pytest.FixtureRequest) -> AsyncIterator[InferStreams]:
    async with grpc.aio.insecure_channel(fake.endpoint) as channel:
        made: InferStreams = GrpcStreams(fake.endpoint) if request.param == "lean" else GrpcAioStreams(channel)
        yield made
        await made.close()


class Received:
    """The messages that a call received."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.came = asyncio.Event()

    def __call__(self, messages: Sequence[bytes]) -> None:
        self.messages += messages
        self.came.set()


async def test_rpc_delivers_all_messages_and_ends(fake: FakeTriton, streams: InferStreams) -> None:
    said = [token_response([5]), final_response()]
    fake.script = said
    received = Received()
    call = await streams.start(INFER_PATH, REQUEST, received, flow=Flow())
    await call.wait_end()
    assert received.messages == [message.SerializeToString() for message in said]
    assert [request.id for request in fake.requests] == ["r"]
    assert call.cancel() is False


async def test_cancel_of_a_running_rpc_returns_true_and_stops_it(fake: FakeTriton, streams: InferStreams) -> None:
    fake.script = [token_response([5]), Ending.SILENCE]
    received = Received()
    call = await streams.start(INFER_PATH, REQUEST, received, flow=Flow())
    reading = asyncio.create_task(call.wait_end())
    async with asyncio.timeout(WAIT_MAX_S):
        await received.came.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert call.cancel() is True
        await fake.stopped.wait()


async def test_cancel_of_a_failed_rpc_returns_false(fake: FakeTriton, streams: InferStreams) -> None:
    fake.script = [Ending.LOST]
    call = await streams.start(INFER_PATH, REQUEST, Received(), flow=Flow())
    with pytest.raises((grpc.aio.AioRpcError, GrpcError)):
        await call.wait_end()
    assert call.cancel() is False


async def test_nothing_is_read_while_the_flow_is_paused(fake: FakeTriton, streams: InferStreams) -> None:
    fake.script = [token_response([5]), token_response([6]), final_response()]
    flow, received = Flow(), Received()
    flow.pause(received)
    call = await streams.start(INFER_PATH, REQUEST, received, flow=flow)
    reading = asyncio.create_task(call.wait_end())
    await asyncio.sleep(0.1)
    assert len(received.messages) <= 1
    flow.resume(received)
    await reading
    assert len(received.messages) == 3


async def test_messages_are_received_with_the_correlation_of_their_own_turn(
    fake: FakeTriton, streams: InferStreams
) -> None:
    fake.script = [token_response([5]), final_response()]
    seen: list[str] = []

    async def infer(response_id: str) -> None:
        correlation.begin(Correlation(response_id=response_id))
        call = await streams.start(
            INFER_PATH, REQUEST, lambda _: seen.append(correlation.current().response_id), flow=Flow()
        )
        await call.wait_end()

    for response_id in ("resp_1", "resp_2"):
        await asyncio.create_task(infer(response_id))
    assert list(dict.fromkeys(seen)) == ["resp_1", "resp_2"]


async def test_metadata_arrives_with_the_request(fake: FakeTriton, streams: InferStreams) -> None:
    fake.script = [final_response()]
    metadata = [("x-request-id", "req_1"), ("traceparent", f"00-{'1' * 32}-{'2' * 16}-01")]
    call = await streams.start(INFER_PATH, REQUEST, Received(), flow=Flow(), metadata=metadata)
    await call.wait_end()
    assert dict(metadata).items() <= fake.metadata[-1].items()
