from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_tools import connections
from antiphon_tools.connections import IDLE_S, Connections
from antiphon_tools.mcp.faults import NotSent
from antiphon_tools.server_file import OperatorServer
from antiphon_tools.targets import Target
from tests.support.raw_mcp_server import Asked, handshake, raw_server, stateless
from tests.support.waiting import until


async def nothing(asked: Asked) -> None:
    await asked.result({"content": []})


def target(url: str, **headers: str) -> Target:
    return Target(f"client {url}", url, headers)


async def test_an_idle_client_is_closed_and_its_session_ended() -> None:
    clock = ManualClock()
    made = Connections(lambda _: True, wire_bytes=2**20, clock=clock)
    async with raw_server(handshake([], nothing)) as server:
        async with made.client("acme", target(server.url)) as client:
            await client.list_tools()
            clock.advance(IDLE_S + 1)
            async with made.client("globex", target(server.url)):
                pass
            assert "DELETE" not in server.rpcs()  # it is in use
        clock.advance(IDLE_S + 1)
        async with made.client("globex", target(server.url)) as other:
            assert other is not client
        await until(lambda: "DELETE" in server.rpcs(), "the session ends")
        await made.close()


async def test_the_number_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLIENTS_ITEMS_MAX", 4)
    made = Connections(lambda _: True, wire_bytes=2**20, clock=ManualClock())
    for number in range(20):
        async with made.client(f"tenant-{number}", target("http://127.0.0.1:9/")):
            assert len(made._held) <= 6
    await made.close()


async def test_a_stateless_server_is_probed_once_for_all_tenants() -> None:
    made = Connections(lambda _: True, wire_bytes=2**20, clock=ManualClock())
    async with raw_server(stateless([], nothing)) as server:
        for tenant in ("acme", "globex"):
            async with made.client(tenant, target(server.url)) as client:
                await client.list_tools()
        await made.close()
    assert server.rpcs() == ["server/discover", "tools/list", "tools/list"]


@pytest.mark.parametrize("is_operators_first", [True, False])
async def test_an_operators_server_and_one_that_a_request_names_share_no_client(is_operators_first: bool) -> None:
    """The operator's may be inside, and the other may not."""
    made = Connections(lambda _: False, wire_bytes=2**20, clock=ManualClock())
    async with raw_server(stateless([], nothing)) as server:
        operator = OperatorServer("calc", server.url)
        targets = [Target(f"calc {server.url}", server.url, {}, operator), target(server.url)]
        for each in targets if is_operators_first else reversed(targets):
            async with made.client("acme", each) as client:
                if each.operator is not None:
                    assert (await client.list_tools()).tools == ()
                else:
                    with pytest.raises(NotSent, match="cannot be reached from here"):
                        await client.list_tools()
        await made.close()


async def test_a_name_that_leads_inside_is_not_connected_to() -> None:
    made = Connections(lambda _: False, wire_bytes=2**20, clock=ManualClock())
    async with raw_server(stateless([], nothing)) as server:
        async with made.client("acme", target(server.url.replace("127.0.0.1", "localhost"))) as client:
            with pytest.raises(NotSent, match="cannot be reached from here"):
                await client.list_tools()
        await made.close()
    assert not server.asked
