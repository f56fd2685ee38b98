from __future__ import annotations

import grpc
import pytest

from antiphon_core.errors import EngineUnavailable
from antiphon_http2.client.client import GrpcStreams
from antiphon_translator.engines.triton_channels import Transport, TritonChannels
from antiphon_translator.engines.triton_transport import GrpcAioStreams


async def test_endpoint_has_one_connection_until_its_last_release() -> None:
    channels = TritonChannels()
    first = channels.acquire("127.0.0.1:1")
    assert channels.acquire("127.0.0.1:1") is first
    other = channels.acquire("127.0.0.1:2")
    assert other is not first
    await channels.release("127.0.0.1:1")
    assert first.channel.get_state() is grpc.ChannelConnectivity.IDLE
    await channels.release("127.0.0.1:1")
    assert first.channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN
    assert channels.acquire("127.0.0.1:1") is not first
    await channels.release("127.0.0.1:1")
    await channels.release("127.0.0.1:2")


@pytest.mark.parametrize(("transport", "streams"), [("lean", GrpcStreams), ("grpc", GrpcAioStreams)])
async def test_configured_transport_is_used(transport: Transport, streams: type) -> None:
    channels = TritonChannels(transport)
    assert isinstance(channels.acquire("127.0.0.1:1").streams, streams)
    await channels.release("127.0.0.1:1")


async def test_malformed_endpoint_is_unavailable() -> None:
    with pytest.raises(EngineUnavailable, match="not an endpoint"):
        TritonChannels().acquire("one:two:3")
