from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from antiphon.workers.ports import ReservedPorts
from antiphon_edge.settings import EdgeSettings
from tests.support.local_settings import settings


@pytest.fixture
def ports() -> Iterator[ReservedPorts]:
    made = ReservedPorts()
    yield made
    made.close()


@contextmanager
def listener(port: int, *, shares: bool) -> Iterator[socket.socket]:
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        found.bind(("127.0.0.1", port))
        found.listen()
        yield found


def test_port_0_is_replaced_by_a_reserved_port(ports: ReservedPorts) -> None:
    reserved = ports.reserve(settings(), ["store", "edge", "worker"])
    assert reserved.store.port
    assert reserved.edge.port
    assert reserved.translator.port == 0  # the translator is no target of this service
    assert replace(reserved, store=settings().store, edge=settings().edge) == settings()


def test_a_reserved_port_is_shared_only_by_listeners_with_reuse_port(ports: ReservedPorts) -> None:
    port = ports.reserve(settings(), ["edge"]).edge.port
    with listener(port, shares=True), listener(port, shares=True):
        with pytest.raises(OSError, match="in use"), listener(port, shares=False):
            pass
        with socket.create_connection(("127.0.0.1", port)):
            pass


def test_a_reserved_port_accepts_no_connections(ports: ReservedPorts) -> None:
    port = ports.reserve(settings(), ["edge"]).edge.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.parametrize("shares", [False, True])
def test_reserving_a_port_in_use_fails(ports: ReservedPorts, shares: bool) -> None:
    with listener(0, shares=shares) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"Cannot listen on 127.0.0.1 port {port}: Address already in use"):
            ports.reserve(settings(EdgeSettings(port=port)), ["edge"])


def test_a_port_is_reserved_on_all_addresses_of_a_host(ports: ReservedPorts) -> None:
    everywhere = EdgeSettings(host="", port=0, insecure=True)
    port = ports.reserve(settings(everywhere), ["edge"]).edge.port
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as other, pytest.raises(OSError, match="in use"):
            other.bind((address, port))


def test_closing_the_reservation_frees_its_ports() -> None:
    made = ReservedPorts()
    port = made.reserve(settings(), ["edge"]).edge.port
    made.close()
    with listener(port, shares=False):
        pass
