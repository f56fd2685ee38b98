from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from antiphon_http2.client import balancing
from antiphon_http2.client.balancing import BalancedStreams
from antiphon_http2.client.targets import Target
from antiphon_http2.errors import ConnectionLost


class Network:
    """Name service and servers: the addresses of the name, and those of them that cannot be reached."""

    def __init__(self) -> None:
        self.addresses = ["10.0.0.1", "10.0.0.2"]
        self.down: set[str] = set()
        self.hanging: set[str] = set()
        self.lookups = 0
        self.made: dict[str, Streams] = {}

    async def getaddrinfo(self, _host: str, port: int, **_: Any) -> list[Any]:
        self.lookups += 1
        if not self.addresses:
            raise socket.gaierror("no such name")
        return [(0, 0, 0, "", (address, port)) for address in self.addresses]


class Streams:
    """A connection to one address, in the place of GrpcStreams."""

    network: Network

    def __init__(self, target: Target, **_: Any) -> None:
        self.target = target
        self.is_connected = False
        self.is_closed = False
        self.can_connect = True
        self.attempts = 0
        self.silence_s = 1_000.0
        self.network.made[target.address] = self

    async def connect(self) -> None:
        address = self.target.address
        self.attempts += 1
        if address in self.network.hanging:
            await asyncio.Event().wait()
        if address in self.network.down:
            raise ConnectionLost(f"{address}: refused")
        self.is_connected = True

    async def close(self) -> None:
        self.is_connected = False
        self.is_closed = True


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0


@pytest.fixture
async def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    network = Network()
    monkeypatch.setattr(Streams, "network", network, raising=False)
    monkeypatch.setattr(balancing, "GrpcStreams", Streams)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", network.getaddrinfo)
    return network


def made() -> tuple[BalancedStreams, Clock]:
    clock = Clock()
    return BalancedStreams("dns:///translator:50052", now_s=lambda: clock.now_s), clock


async def addresses(balanced: BalancedStreams, times: int) -> list[str]:
    found = []
    for _ in range(times):
        peer: Any = await balanced.choose()
        found.append(peer.streams.target.address)
    return sorted(found)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_calls_go_to_all_addresses_in_turn(network: Network) -> None:
    balanced, _ = made()
    await balanced.choose()
    await settle()
    assert await addresses(balanced, 4) == ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"]
    assert network.made["10.0.0.1"].target == Target("translator", 50052, "translator:50052", "10.0.0.1")
    assert network.lookups == 1
    await balanced.close()


@pytest.mark.parametrize("trouble", ["down", "hanging"])
async def test_an_address_that_cannot_be_reached_holds_no_call_up(network: Network, trouble: str) -> None:
    getattr(network, trouble).add("10.0.0.1")
    balanced, _ = made()
    assert await addresses(balanced, 3) == ["10.0.0.2"] * 3
    await balanced.close()


async def test_an_address_is_not_connected_to_before_its_backoff_has_passed(network: Network) -> None:
    network.down.add("10.0.0.1")
    balanced, _ = made()
    await addresses(balanced, 2)
    await settle()
    lost = network.made["10.0.0.1"]
    lost.can_connect, begun = False, lost.attempts
    await addresses(balanced, 3)
    await settle()
    assert lost.attempts == begun > 0
    lost.can_connect = True
    await addresses(balanced, 1)
    await settle()
    assert lost.attempts == begun + 1
    await balanced.close()


async def test_an_address_that_is_lost_is_used_again_when_it_is_back(network: Network) -> None:
    balanced, _ = made()
    await balanced.choose()
    await settle()
    network.made["10.0.0.1"].is_connected = False
    network.down.add("10.0.0.1")
    assert await addresses(balanced, 2) == ["10.0.0.2"] * 2
    network.down.clear()
    await balanced.choose()
    await settle()
    assert await addresses(balanced, 2) == ["10.0.0.1", "10.0.0.2"]
    await balanced.close()


async def test_a_call_without_a_reachable_address_fails_with_the_reason(network: Network) -> None:
    network.down.update(network.addresses)
    balanced, _ = made()
    with pytest.raises(ConnectionLost, match="refused"):
        await balanced.choose()
    network.addresses.clear()
    other, _ = made()
    with pytest.raises(ConnectionLost, match="cannot be looked up"):
        await other.choose()
    await balanced.close()
    await other.close()


async def test_the_name_is_looked_up_again(network: Network) -> None:
    balanced, clock = made()
    await balanced.choose()
    network.addresses.append("10.0.0.3")
    clock.now_s += balancing.RESOLVE_INTERVAL_S - 1
    await balanced.choose()
    await settle()
    assert network.lookups == 1
    clock.now_s += 1
    await balanced.choose()
    await settle()
    await balanced.choose()
    await settle()
    assert network.lookups == 2
    assert await addresses(balanced, 3) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    await balanced.close()


async def test_an_address_that_is_gone_gets_no_calls_and_keeps_those_it_has(network: Network) -> None:
    balanced, clock = made()
    await balanced.choose()
    await settle()
    peers = {peer.streams: peer for peer in [await balanced.choose(), await balanced.choose()]}
    leaving: Any = network.made["10.0.0.1"]
    with balanced.use(peers[leaving]):
        network.addresses.remove("10.0.0.1")
        clock.now_s += balancing.RESOLVE_INTERVAL_S
        await balanced.choose()
        await settle()
        assert await addresses(balanced, 2) == ["10.0.0.2"] * 2
        assert not leaving.is_closed
    await settle()
    assert leaving.is_closed
    await balanced.close()


async def test_all_addresses_replaced_at_once_are_found_by_the_next_call(network: Network) -> None:
    balanced, clock = made()
    await balanced.choose()
    await settle()
    for streams in network.made.values():
        streams.is_connected = False
    network.down.update(network.addresses)
    network.addresses = ["10.0.0.9"]
    clock.now_s += balancing.RESOLVE_RETRY_S
    assert await addresses(balanced, 1) == ["10.0.0.9"]
    await balanced.close()


async def test_a_failed_lookup_changes_nothing(network: Network) -> None:
    balanced, clock = made()
    await balanced.choose()
    network.addresses.clear()
    clock.now_s += balancing.RESOLVE_INTERVAL_S
    await balanced.choose()
    await settle()
    assert await addresses(balanced, 2) == ["10.0.0.1", "10.0.0.2"]
    await balanced.close()


async def test_a_closed_client_closes_everything_and_takes_no_calls(network: Network) -> None:
    network.hanging.add("10.0.0.1")
    balanced, _ = made()
    await balanced.choose()
    await balanced.close()
    assert all(streams.is_closed for streams in network.made.values())
    with pytest.raises(ConnectionLost, match="closed"):
        await balanced.choose()


async def test_a_silent_address_is_avoided_until_it_answers(network: Network) -> None:
    balanced, _ = made()
    silent = await balanced.choose()
    await settle()
    silent.avoid()
    address = network_address(silent)
    assert address not in await addresses(balanced, 4)
    network.made[address].silence_s = 0.0
    assert address in await addresses(balanced, 4)
    await balanced.close()


async def test_an_address_is_used_when_all_are_avoided(network: Network) -> None:
    network.addresses = ["10.0.0.1"]
    balanced, _ = made()
    (await balanced.choose()).avoid()
    assert await addresses(balanced, 1) == ["10.0.0.1"]
    await balanced.close()


async def test_a_server_that_does_not_answer_is_connected_to_anew_and_its_name_looked_up(network: Network) -> None:
    """A service address stays, but another machine may be behind it."""
    network.addresses = ["10.0.0.1"]
    balanced, clock = made()
    silent = await balanced.choose()
    network.addresses.append("10.0.0.2")
    balanced.leave_silent(silent)
    await settle()
    assert network.lookups == 2
    made_anew: Any = network.made["10.0.0.1"]
    assert made_anew is not silent.streams
    assert silent.streams.is_closed  # type: ignore[attr-defined]
    await balanced.choose()
    await settle()
    assert await addresses(balanced, 2) == ["10.0.0.1", "10.0.0.2"]
    again = await balanced.choose()
    balanced.leave_silent(again)  # too early for another connection
    await settle()
    assert not again.streams.is_closed  # type: ignore[attr-defined]
    clock.now_s += balancing.RECONNECT_INTERVAL_S
    balanced.leave_silent(again)
    await settle()
    assert again.streams.is_closed  # type: ignore[attr-defined]
    await balanced.close()


async def test_a_server_that_cannot_be_connected_to_anew_keeps_its_connection(network: Network) -> None:
    network.addresses = ["10.0.0.1"]
    balanced, _ = made()
    silent = await balanced.choose()
    network.down.add("10.0.0.1")
    balanced.leave_silent(silent)
    await settle()
    assert await balanced.choose() is silent
    await balanced.close()


async def test_closing_ends_a_connection_that_is_being_made_anew(network: Network) -> None:
    network.addresses = ["10.0.0.1"]
    balanced, _ = made()
    silent = await balanced.choose()
    network.hanging.add("10.0.0.1")
    balanced.leave_silent(silent)
    await settle()
    anew: Any = network.made["10.0.0.1"]
    assert anew is not silent.streams
    await balanced.close()
    assert anew.is_closed
    assert silent.streams.is_closed  # type: ignore[attr-defined]


async def test_servers_that_report_to_serve_are_preferred(network: Network) -> None:
    balanced, _ = made()
    await balanced.choose()
    await settle()
    first, second = await balanced.choose(), await balanced.choose()
    first.report(is_serving=True)
    assert {await balanced.choose() for _ in range(4)} == {first}
    first.report(is_serving=False)
    assert {await balanced.choose() for _ in range(4)} == {first, second}
    await balanced.close()


def network_address(peer: Any) -> str:
    return str(peer.streams.target.address)
