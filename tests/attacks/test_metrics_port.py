"""The port of metrics needs no credential: silent connections and requests in a loop stay within bounds."""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from antiphon_core.telemetry.exposition import Exposition, MetricsServer
from antiphon_core.telemetry.metrics_port import CONNECTIONS_ITEMS_MAX
from tests.attacks.test_hang_ups import RESET
from tests.support.waiting import WAIT_MAX_S


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    made = MetricsServer(Exposition(("edge",)), "127.0.0.1", 0)
    made.start()
    yield made
    made.stop()


def ask(server: MetricsServer) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=WAIT_MAX_S) as answer:
        return bytes(answer.read())


@pytest.mark.parametrize("beginning", [b"", b"GET /metrics HTTP/1.1\r\nX: "], ids=["silent", "half a head"])
def test_idle_connections_give_way_to_requests_and_their_number_is_bounded(
    server: MetricsServer, beginning: bytes
) -> None:
    before = threading.active_count()
    with ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            for _ in range(3 * CONNECTIONS_ITEMS_MAX)
        ]
        for each in idle:
            each.sendall(beginning)
        assert b"antiphon_build_info" in ask(server)
        for each in idle[:CONNECTIONS_ITEMS_MAX]:  # the oldest ones were closed
            each.settimeout(WAIT_MAX_S)
            assert each.recv(1) == b""
        assert threading.active_count() - before <= 2 * CONNECTIONS_ITEMS_MAX


def test_client_that_resets_its_connection_leaves_no_traceback(
    server: MetricsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(9):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\n")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    assert b"antiphon_build_info" in ask(server)
    assert capfd.readouterr().err == ""
