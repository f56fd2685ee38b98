"""Receives the requests of a gRPC server: from known callers only, and with a bound on the bytes in flight.

grpc.aio reads the message of a unary method before it calls the handler. Twenty callers without a token could so have
950 MiB held for them in two seconds. All methods are therefore served as methods with a stream of requests, which is
the same on the wire: nothing beyond the stream's window of 64 KiB is accepted until `Intake.receive` asks for it.

How long a message is, grpc.aio does not tell before the message is complete. So a request that is not complete after
`GRACE_S` counts as one of the greatest length, and is refused where the budget has no room for that
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
_BUSY = "The server receives and handles too many large requests at the moment. Try again."
_CALLS = "Too many calls of this caller are in progress at once. Try again when some have ended."
_LATE = f"The request did not arrive within {RECEIVE_TIMEOUT_S:g} s."


@dataclass(frozen=True, slots=True)
class IntakeLimits:
    """`bytes_max` bounds all requests that are received or handled, `caller_bytes_max` those of one caller, and
    `caller_calls_max` the calls of one caller that are in progress."""

    bytes_max: int = RPC_REQUESTS_BYTES_MAX
    caller_bytes_max: int = RPC_REQUESTS_BYTES_MAX // 2
    caller_calls_max: int = 4_096

    @classmethod
    def of(cls, bytes_max: int) -> Self:
        """Half of the bytes for one caller, so that no caller keeps the others out."""
        return cls(bytes_max, bytes_max // 2)


class Budget:
    """Bytes and calls in progress, in total and for each caller."""

    def __init__(self, limits: IntakeLimits) -> None:
        self._limits = limits
        self._bytes = 0
        self._bytes_of: Counter[str] = Counter()
        self._calls_of: Counter[str] = Counter()

    @contextmanager
    def call(self, caller: str) -> Iterator[None]:
        """One call in progress. Unavailable: the caller has too many."""
        if self._calls_of[caller] >= self._limits.caller_calls_max:
            raise self._refused("calls", _CALLS)
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
            raise self._refused("bytes", _BUSY)
        if self._bytes_of[caller] + size > self._limits.caller_bytes_max:
            raise self._refused("caller_bytes", _BUSY)
        self._bytes += size
        self._bytes_of[caller] += size

    def give_back(self, caller: str, size: int) -> None:
        self._bytes -= size
        self._bytes_of[caller] -= size
        if not self._bytes_of[caller]:
            del self._bytes_of[caller]

    @property
    def is_unused(self) -> bool:
        return not (self._bytes or self._bytes_of or self._calls_of)

    @staticmethod
    def _refused(limit: str, message: str) -> Unavailable:
        metrics.RPC_REJECTED.of(limit).add()
        return Unavailable(message)


class Intake:
    """Receives the one request of each call. For one server, and inside one event loop."""

    def __init__(self, limits: IntakeLimits, *, grace_s: float = GRACE_S, timeout_s: float = RECEIVE_TIMEOUT_S) -> None:
        self.budget = Budget(limits)
        self._grace_s = grace_s
        self._timeout_s = timeout_s

    async def receive(self, context: grpc.aio.ServicerContext[Any, Any], caller: str) -> Request | None:
        """The next request of a call, which the budget holds until it is released; None at their end.

        Unavailable: the budget has no room. Timeout: the request does not arrive."""
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
        """May be called again."""
        if self._size:
            self._budget.give_back(self._caller, self._size)
            self._size = 0


class _Arrival:
    """Cancels the task that receives a request, when the request is slow and the budget has no room, or when it is
    late."""

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
        """Raises why the task was cancelled, if that was done here."""
        if self._reason is not None:
            if self._task is not None:
                self._task.uncancel()
            raise self._reason

    def _on_half(self) -> None:
        """Waits for the other half of the grace. Behind a loop that stood still both halves would be over at once, and
        requests that have arrived meanwhile, which nobody has taken yet, would count as large ones."""
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
