"""The guard of tests/unit records processes, listening sockets and waits, which unit tests must not have."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from tests.support.unit_guard import WAIT_MAX_S, Effect, UnitGuard, installed_guard

TOO_LONG_S = WAIT_MAX_S + 0.01


@pytest.fixture
def guard() -> Iterator[UnitGuard]:
    """The guard of this process. Its recorded effects are cleared after the test."""
    yield installed_guard()
    installed_guard().effects.clear()


def kinds(guard: UnitGuard) -> list[Effect]:
    return [effect for effect, _ in guard.effects]


def test_a_process_is_noticed(guard: UnitGuard) -> None:
    sys.audit("subprocess.Popen", "true", ["true"], None, None)
    assert kinds(guard) == ["process"]


def test_a_socket_that_is_bound_is_noticed(guard: UnitGuard) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
    assert kinds(guard) == ["listen"]


def test_a_port_of_grpc_is_noticed(guard: UnitGuard) -> None:
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        server.add_insecure_port("127.0.0.1:0")
        server.stop(None)
    assert kinds(guard) == ["listen"]


def test_a_sleep_is_noticed(guard: UnitGuard) -> None:
    time.sleep(TOO_LONG_S)
    assert kinds(guard) == ["wait"]


async def test_an_event_loop_that_only_waits_is_noticed(guard: UnitGuard) -> None:
    await asyncio.sleep(TOO_LONG_S)
    assert kinds(guard) == ["wait"]


async def test_an_event_loop_woken_before_its_timer_is_not_noticed(guard: UnitGuard) -> None:
    woken = asyncio.Event()
    async with asyncio.timeout(60):
        asyncio.get_running_loop().call_later(0.01, woken.set)
        await woken.wait()
    assert kinds(guard) == []
