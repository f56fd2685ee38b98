"""Records tests that start a process, listen on a socket or wait in real time, which unit tests must not do.

Waits for a thread in `Event.wait` or `Future.result` are not recorded.
"""

from __future__ import annotations

import selectors
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from grpc._server import _Server as BlockingServer
from grpc.aio._server import Server as AsyncServer

Effect = Literal["process", "listen", "wait"]

WAIT_MAX_S = 0.2
_PROCESSES = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"}


class UnitGuard:
    """Records effects on the machine. A test run clears `effects` before each test."""

    def __init__(self) -> None:
        self.effects: list[tuple[Effect, str]] = []

    def record(self, effect: Effect, detail: object) -> None:
        self.effects.append((effect, str(detail)))

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """The hook for sys.addaudithook."""
        if event in _PROCESSES:
            self.record("process", arguments[:2])
        elif event == "socket.bind":
            self.record("listen", arguments[1])


@cache
def installed_guard() -> UnitGuard:
    """Returns the guard of this process. An audit hook cannot be removed, so all tests share one guard."""
    guard = UnitGuard()
    sys.addaudithook(guard.audit)
    time.sleep = _noticed_sleep(guard, time.sleep)  # type: ignore[assignment]
    selectors.DefaultSelector.select = _noticed_select(guard, selectors.DefaultSelector.select)  # type: ignore[method-assign]
    # gRPC opens its sockets in C, where no audit hook is called.
    for server in (AsyncServer, BlockingServer):
        for method in ("add_insecure_port", "add_secure_port"):
            setattr(server, method, _noticed_port(guard, getattr(server, method)))
    return guard


def _noticed_sleep(guard: UnitGuard, sleep: Callable[[float], None]) -> Callable[[float], None]:
    def noticed(seconds: float, /) -> None:
        if seconds > WAIT_MAX_S:
            guard.record("wait", f"time.sleep({seconds})")
        sleep(seconds)

    return noticed


def _noticed_select(guard: UnitGuard, select: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Records an event loop that got no event until a timer was due. A loop that is late on a busy machine is not
    recorded, because its timer was due earlier."""

    def noticed(self: selectors.BaseSelector, timeout: float | None = None) -> list[Any]:
        started = time.monotonic()
        ready = select(self, timeout)
        has_timer = timeout is not None and timeout > WAIT_MAX_S
        if has_timer and not ready and threading.current_thread() is threading.main_thread():
            waited_s = time.monotonic() - started
            if waited_s > WAIT_MAX_S:
                guard.record("wait", f"{waited_s:.2f} s for a timer")
        return ready

    return noticed


def _noticed_port(guard: UnitGuard, add_port: Callable[..., int]) -> Callable[..., int]:
    def noticed(self: Any, address: str, *arguments: Any) -> int:
        guard.record("listen", f"gRPC at {address}")
        return add_port(self, address, *arguments)

    return noticed
