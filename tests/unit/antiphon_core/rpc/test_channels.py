from __future__ import annotations

import json

import grpc
import pytest

from antiphon_core.rpc.channels import Channels, options
from antiphon_core.rpc.methods import STORE
from tests.support.waiting import until


@pytest.mark.parametrize("checks_health", [False, True])
def test_channels_have_no_retry_policy(checks_health: bool) -> None:
    config = json.loads(dict(options(STORE, checks_health=checks_health))["grpc.service_config"])
    assert config.keys() - {"healthCheckConfig"} == {"loadBalancingConfig"}


async def test_changed_certificates_open_new_channels_and_close_the_old_ones() -> None:
    current = grpc.ssl_channel_credentials()
    channels = Channels("127.0.0.1:1", STORE, lambda: current)
    old = channels.choose()
    assert channels.choose() is old
    current = grpc.ssl_channel_credentials()
    assert channels.choose() is not old
    await until(lambda: old.channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN, "the old channel is closed")
    closed = channels.choose()
    await channels.close()
    current = grpc.ssl_channel_credentials()
    assert channels.choose() is closed
