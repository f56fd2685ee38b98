from __future__ import annotations

import asyncio

from antiphon_core.rpc.channels import Channels
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import RpcServer
from tests.support.ports import free_ports
from tests.support.waiting import until


async def test_channels_whose_server_does_not_answer_are_replaced_once_there_is_a_connection() -> None:
    server = RpcServer()
    (port,) = free_ports(1)
    channels = Channels(f"127.0.0.1:{port}", STORE, None)
    numbers = {channels.choose().number}
    channels.reconnect()
    assert channels.choose().number in numbers
    await server.start("127.0.0.1", port)
    await until(lambda: channels.choose().number not in numbers, "other channels")
    numbers.add(channels.choose().number)
    channels.reconnect()  # too early for another time
    await asyncio.sleep(0)
    assert channels.choose().number in numbers
    await channels.close()
    await server.drain(0)
