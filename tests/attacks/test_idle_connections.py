"""Attack 15: silent connections up to the limit of open files. New requests are still answered, and the log gets at
most two lines and no traceback."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from yarl import URL

from tests.support.system import Command, serve
from tests.support.waiting import WAIT_MAX_S

OPEN_FILES = 128
ATTACKERS = 300
LIVE = b"GET /v1/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def edge() -> Iterator[tuple[Command, URL]]:
    """An edge with a low limit of open files."""
    nowhere = ("--edge-store=127.0.0.1:1", "--edge-translator=127.0.0.1:1")
    with serve("edge", f"--edge-connections-max={OPEN_FILES - 64}", *nowhere) as (command, address):
        resource.prlimit(command.process.pid, resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
        yield command, URL(f"http://{address}")


def live(url: URL) -> bytes:
    with socket.create_connection((str(url.host), url.port or 0), WAIT_MAX_S) as victim:
        victim.sendall(LIVE)
        answer = b""
        while piece := victim.recv(4096):
            answer += piece
        return answer


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nX-Slow: "], ids=["silent", "pieces of heads"])
def test_new_requests_are_answered_beside_idle_connections(edge: tuple[Command, URL], said: bytes) -> None:
    command, url = edge
    with ExitStack() as stack:
        for _ in range(ATTACKERS):
            idle = stack.enter_context(socket.create_connection((str(url.host), url.port or 0), WAIT_MAX_S))
            idle.sendall(said)
        answers = [live(url) for _ in range(10)]
    assert all(b"HTTP/1.1 200 OK" in answer for answer in answers)
    assert not any("Traceback" in line or "Too many open files" in line for line in command.lines)
    assert sum("connections were closed or rejected" in line for line in command.lines) <= 2


def test_answers_do_not_name_the_server_software(edge: tuple[Command, URL]) -> None:
    answers = [exchange(edge[1], said) for said in (LIVE, LIVE.replace(b"live", b"x"), b"rubbish\r\n\r\n")]
    for answer in answers:
        assert b"ython" not in answer
        assert b"aiohttp" not in answer


def exchange(url: URL, said: bytes) -> bytes:
    with socket.create_connection((str(url.host), url.port or 0), WAIT_MAX_S) as client:
        client.sendall(said)
        return client.recv(4096)
