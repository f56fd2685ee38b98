"""Receives the requests of a gRPC server: after authentication of their callers, and with a limit of bytes in flight.

A request counts from the moment its length is known, five bytes into it, so before it is accepted: until then the
stream's window of 64 KiB is all that a caller can send. Twenty callers without a token once made the server hold
950 MiB within two seconds (docs/adr/0090-requests-are-received-within-a-budget.md).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from antiphon_core.errors import AntiphonError, InvalidRequest, Timeout, TooLarge, Unavailable, Unimplemented
from antiphon_core.limits import RPC_REQUESTS_BYTES_MAX
from antiphon_core.telemetry import metrics
from antiphon_http2.errors import GrpcError
from antiphon_http2.server.call import ServerCall
from antiphon_http2.statuses import RESOURCE_EXHAUSTED, UNIMPLEMENTED

RECEIVE_TIMEOUT_S = 10.0
BUSY = "The server receives and handles too many large requests at the moment. Try again."
_CALLS = "Too many calls of this caller are in progress at once. Try again when some have ended."
_ERRORS: dict[int, type[AntiphonError]] = {RESOURCE_EXHAUSTED: TooLarge, UNIMPLEMENTED: Unimplemented}
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


class CallBudget:
    """Bytes and calls of gRPC in progress, in total and for each caller.

    Apart from `ByteBudget`, because its callers are few and known services: shares are fixed, calls count too, and each
    rejection is UNAVAILABLE, which callers retry. Tenants of HTTP need shares that follow what is free, and a 429."""

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
        if not size:
            return
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

    def __init__(self, limits: IntakeLimits, *, timeout_s: float = RECEIVE_TIMEOUT_S) -> None:
        self.budget = CallBudget(limits)
        self._timeout_s = timeout_s

    async def receive(self, call: ServerCall, caller: str) -> Request | None:
        """The next request of a call; None if there is no further one. It counts in the budget until it is released.

        Unavailable: the budget has no room. Timeout: the request did not arrive in time. InvalidRequest, TooLarge,
        Unimplemented: it is malformed, too large or compressed."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._receive(call, caller)
        except TimeoutError as error:
            raise Timeout(_LATE) from error
        except GrpcError as error:
            raise _ERRORS.get(error.status, InvalidRequest)(error.message) from error

    async def _receive(self, call: ServerCall, caller: str) -> Request | None:
        size = await call.next_size()
        if size is None:
            return None
        request = Request(size, self.budget, caller)
        try:
            request.data = await call.receive()
        except BaseException:
            request.release()
            raise
        return request


class Request:
    """A request, counted in a budget until it is released: by `release`, or at the end of `with`."""

    __slots__ = ("_budget", "_caller", "_size", "data")

    def __init__(self, size: int, budget: CallBudget, caller: str) -> None:
        """Counts the request. Unavailable: there is no room."""
        budget.take(caller, size)
        self.data = b""
        self._size = size
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
