"""Receives the requests of a gRPC server: after authentication of their callers, and with a limit of bytes in flight.

grpc.aio reads the message of a unary method before it calls the handler. Twenty callers without a token could make the
server hold 950 MiB within two seconds. All methods are therefore served as methods with a stream of requests, which is
the same on the wire: nothing beyond the stream's window of 64 KiB is accepted until `Intake.receive` is called.

grpc.aio does not report the length of a message before the message is complete. So a request that is not complete after
`GRACE_S` counts as one of the greatest length, and is rejected if the budget has no room for that
(docs/adr/0090-requests-are-received-within-a-budget.md).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import grpc

from antiphon_core.errors import AntiphonError, Timeout, Unavailable
from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX, RPC_REQUESTS_BYTES_MAX
from antiphon_core.telemetry import metrics

GRACE_S = 0.05
RECEIVE_TIMEOUT_S = 10.0
BUSY = "The server receives and handles too many large requests at the moment. Try again."
_CALLS = "Too many calls of this caller are in progress at once. Try again when some have ended."
_LATE = f"The request did not arrive within {RECEIVE_TIMEOUT_S:g} s."


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """Limits of the requests that are received or handled: `bytes_max` for all of them together, `caller_bytes_max` for
    those of one caller, and `caller_calls_max` for the number of one caller's calls in progress."""

    bytes_max: int = RPC_REQUESTS_BYTES_MAX
    caller_bytes_max: int = RPC_REQUESTS_BYTES_MAX // 2
    caller_calls_max: int = 4_096

    @classmethod
    def of(cls, bytes_max: int) -> Self:
        """Limits with half of the bytes for one caller, so that no caller can block the others."""
        return cls(bytes_max, bytes_max // 2)


class Budget:
    """Bytes and calls in progress, in total and for each caller."""

    def __init__(self, limits: IntakeLimits, *, counted: str = "bytes", message: str = BUSY) -> None:
        """`counted` is the label of rejections in the metric, and `message` their text."""
        self._limits = limits
        self._counted = counted
        self._message = message
        self._bytes = 0
        self._bytes_of: Counter[str] = Counter()
        self._calls_of: Counter[str] = Counter()

    @contextmanager
    def call(self, caller: str) -> Iterator[None]:
        """Counts a call while the context is open. Unavailable: the caller has too many calls in progress."""
        if self._calls_of[caller] >= self._limits.caller_calls_max:
            raise self._rejection("calls", _CALLS)
        self._calls_of[caller] += 1
        try:
            yield
        finally:
            self._calls_of[caller] -= 1
            if not self._calls_of[caller]:
                del self._calls_of[caller]

    def take(self, caller: str, size: int) -> None:
        """Counts bytes until `give_back`. Unavailable: there is no room, and nothing is counted."""
        if self._bytes + size > self._limits.bytes_max:
            raise self._rejection(self._counted, self._message)
        if self._bytes_of[caller] + size > self._limits.caller_bytes_max:
            raise self._rejection(f"caller_{self._counted}", self._message)
        self._bytes += size
        self._bytes_of[caller] += size

    def give_back(self, caller: str, size: int) -> None:
        self._bytes -= size
        self._bytes_of[caller] -= size
        if not self._bytes_of[caller]:
            del self._bytes_of[caller]

    @property
    def calls(self) -> int:
        """The number of calls in progress."""
        return self._calls_of.total()

    @property
    def is_unused(self) -> bool:
        return not (self._bytes or self._bytes_of or self._calls_of)

    @staticmethod
    def _rejection(limit: str, message: str) -> Unavailable:
        metrics.RPC_REJECTED.of(limit).add()
        return Unavailable(message)


class Intake:
    """Receives the requests of calls. For one server and one event loop."""

    def __init__(self, limits: IntakeLimits, *, grace_s: float = GRACE_S, timeout_s: float = RECEIVE_TIMEOUT_S) -> None:
        self.budget = Budget(limits)
        self._grace_s = grace_s
        self._timeout_s = timeout_s

    async def receive(self, context: grpc.aio.ServicerContext[Any, Any], caller: str) -> Request | None:
        """The next request of a call; None if there is no further one. It counts in the budget until it is released.

        Unavailable: the budget has no room. Timeout: the request did not arrive in time."""
        arrival = _Arrival(self.budget, caller, self._grace_s, self._timeout_s)
        try:
            data: Any = await context.read()
        except asyncio.CancelledError:
            arrival.raise_reason()
            raise
        finally:
            arrival.stop()
        if data is grpc.aio.EOF:
            return None
        return Request(data, self.budget, caller)


class Request:
    """The bytes of a request, counted in a budget until they are released: by `release`, or at the end of `with`."""

    __slots__ = ("_budget", "_caller", "_size", "data")

    def __init__(self, data: bytes, budget: Budget, caller: str) -> None:
        budget.take(caller, len(data))
        self.data = data
        self._size = len(data)
        self._budget = budget
        self._caller = caller

    def __enter__(self) -> bytes:
        return self.data

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Ends the counting of this request. Further calls have no effect."""
        if self._size:
            self._budget.give_back(self._caller, self._size)
            self._size = 0


class _Arrival:
    """Watches the arrival of a request. Cancels the task that receives it if the request is slow and the budget has no
    room for the largest one, or after the timeout."""

    def __init__(self, budget: Budget, caller: str, grace_s: float, timeout_s: float) -> None:
        self._budget = budget
        self._caller = caller
        self._timeout_s = timeout_s
        self._is_counted = False
        self._reason: AntiphonError | None = None
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._grace_s = grace_s
        self._timer = self._loop.call_later(grace_s / 2, self._on_half)

    def stop(self) -> None:
        self._timer.cancel()
        if self._is_counted:
            self._is_counted = False
            self._budget.give_back(self._caller, RPC_MESSAGE_BYTES_MAX)

    def raise_reason(self) -> None:
        """Raises the reason of the cancellation, if this object has cancelled the task."""
        if self._reason is not None:
            if self._task is not None:
                self._task.uncancel()
            raise self._reason

    def _on_half(self) -> None:
        """Waits for the second half of the grace. With a single timer, a request that arrived while the event loop was
        blocked would count as slow, because the timer runs before the task that reads the request."""
        self._timer = self._loop.call_later(self._grace_s / 2, self._on_slow)

    def _on_slow(self) -> None:
        try:
            self._budget.take(self._caller, RPC_MESSAGE_BYTES_MAX)
        except Unavailable as error:
            self._cancel(error)
            return
        self._is_counted = True
        self._timer = self._loop.call_later(self._timeout_s, self._cancel, Timeout(_LATE))

    def _cancel(self, reason: AntiphonError) -> None:
        self._reason = reason
        if self._task is not None:
            self._task.cancel()
