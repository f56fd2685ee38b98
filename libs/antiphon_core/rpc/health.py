"""gRPC's health service: the health of each service of a server, and the fault of those that do not serve.

Clients use it in two ways. Their connections watch it, and calls go to servers that report SERVING, as long as there is
one (antiphon_http2/client/balancing.py). And `RpcClient.ready` checks it: the answer carries the fault in its trailing
metadata, so that a client learns in one call, of one server, whether that server is full or cannot be used at all.

It needs no authentication, for probes, so requests must be small and few at once per host. A fault's message is shown
to everybody: it names no address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from grpc_health.v1 import health_pb2

from antiphon_core.errors import AntiphonError, InvalidRequest, Unavailable
from antiphon_core.limits import RPC_CONNECTIONS_ITEMS_MAX
from antiphon_core.rpc import callers
from antiphon_core.rpc.codec import decode_plain
from antiphon_core.rpc.intake import CallBudget, Intake, IntakeLimits
from antiphon_core.rpc.status import from_bytes, to_bytes, to_status
from antiphon_http2.client.responses import Fields, binary_of
from antiphon_http2.server.answers import Status
from antiphon_http2.server.call import Serve, ServerCall
from antiphon_http2.statuses import NOT_FOUND, OK

SERVICE_NAME = "grpc.health.v1.Health"
CHECK_PATH = f"/{SERVICE_NAME}/Check"
FAULT_KEY = "antiphon-fault-bin"
"""The trailing metadata of a check of a service that does not serve: the fault, as a google.rpc.Status."""

LIMITS = IntakeLimits(bytes_max=2**20, caller_bytes_max=2**16, caller_calls_max=64)
"""Limits for requests that name a service."""
WATCH_END_S = 1.0  # for clients to receive the last state before the server stops
_WATCHES = IntakeLimits(caller_calls_max=RPC_CONNECTIONS_ITEMS_MAX)  # a client has one watch for each connection
_CONNECTION_WATCHES = IntakeLimits(caller_calls_max=16)  # for each service of the server, and some to spare

_Answer = health_pb2.HealthCheckResponse


class Health:
    """The health of the services of one server. Before it answers Check, it awaits `refresh` with the name of the
    service, which may call `report`."""

    def __init__(self, refresh: Callable[[str], Awaitable[None]]) -> None:
        self._faults: dict[str, Unavailable | None] = {"": None}
        self._changed = asyncio.Event()  # set and replaced after each change
        self._is_draining = False
        self._intake = Intake(LIMITS)
        self._watches = CallBudget(_WATCHES)
        self._connection_watches = CallBudget(_CONNECTION_WATCHES)
        self._watching: set[asyncio.Task[None]] = set()
        self._refresh = refresh

    def report(self, service: str, fault: Unavailable | None) -> None:
        """Sets the fault of a service; None: it serves."""
        self._faults[service] = fault
        self._tell()

    async def drain(self) -> None:
        """Reports NOT_SERVING for all services from now on, and ends the watches of clients that read."""
        self._is_draining = True
        self._tell()
        if self._watching:
            await asyncio.wait(self._watching, timeout=WATCH_END_S)

    def fault(self, service: str) -> Unavailable | None:
        """The reported fault of a service; None: it serves, or is unknown."""
        if self._is_draining:
            return Unavailable("The server is stopping.", away=True)
        return self._faults.get(service)

    def methods(self) -> Mapping[str, Serve]:
        """The methods of the service, by path."""
        return {CHECK_PATH: self._check, f"/{SERVICE_NAME}/Watch": self._watch}

    async def _check(self, call: ServerCall) -> None:
        caller = callers.host_of(call.peer)
        try:
            with self._intake.budget.call(caller):
                service = await self._receive(call, caller)
                await self._refresh(service)
        except AntiphonError as error:
            call.finish(to_status(error))
            return
        if service not in self._faults:
            call.finish(Status(NOT_FOUND, f"There is no service '{service}'."))
            return
        call.send(self._answer(service))
        fault = self.fault(service)
        call.finish(Status(OK, metadata=[(FAULT_KEY, to_bytes(fault))] if fault is not None else ()))

    async def _watch(self, call: ServerCall) -> None:
        caller = callers.host_of(call.peer)
        try:
            with self._intake.budget.call(caller):
                service = await self._receive(call, caller)
            with self._watches.call(caller), self._connection_watches.call(call.peer):
                following = asyncio.ensure_future(self._follow(service, call))
                self._watching.add(following)
                following.add_done_callback(self._watching.discard)
                await following
        except AntiphonError as error:
            call.finish(to_status(error))

    async def _follow(self, service: str, call: ServerCall) -> None:
        """Sends the health of a service and its changes until the server stops. A client that does not read blocks its
        own watch only: the servicer of grpcio-health holds a lock while it sends, so one such client stops all."""
        sent = None
        while True:
            changed, answer, is_last = self._changed, self._answer(service), self._is_draining
            if answer != sent:
                call.send(answer)
                await call.room()
                sent = answer
            if is_last:
                return
            await changed.wait()

    def _answer(self, service: str) -> bytes:
        known = _Answer.SERVING if self.fault(service) is None else _Answer.NOT_SERVING
        status = known if service in self._faults else _Answer.SERVICE_UNKNOWN
        return bytes(_Answer(status=status).SerializeToString())

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _receive(self, call: ServerCall, caller: str) -> str:
        """Receives the request of a call, and returns the service that it names."""
        request = await self._intake.receive(call, caller)
        if request is None:
            raise InvalidRequest("The call carries no request.")
        request.release()
        return str(decode_plain(health_pb2.HealthCheckRequest, request.data).service)


def fault_in(trailers: Fields, unavailable: type[Unavailable]) -> AntiphonError | None:
    """The fault that a check's trailers carry, if any."""
    data = binary_of(trailers, FAULT_KEY.encode())
    return from_bytes(data, unavailable) if data else None
