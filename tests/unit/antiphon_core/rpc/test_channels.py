from __future__ import annotations

import json

import grpc

from antiphon_core.rpc.channels import Channels, options
from antiphon_core.rpc.methods import STORE
from tests.support.waiting import until


def test_the_retry_policy_leaves_out_methods_that_are_not_repeatable() -> None:
    config = json.loads(dict(options(STORE, checks_health=False))["grpc.service_config"])
    (policy,) = config["methodConfig"]
    repeated = {f"/{each['service']}/{each['method']}" for each in policy["name"]}
    left_out = {method.name for method in STORE.methods.values() if method.path not in repeated}
    assert left_out == {"ClaimJob", "TakeQuota"}


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
