from __future__ import annotations

import grpc

from antiphon_translator.engines.triton_channels import TritonChannels


async def test_an_endpoint_has_one_connection_until_its_last_user_lets_go() -> None:
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
