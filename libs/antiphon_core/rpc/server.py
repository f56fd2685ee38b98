"""The gRPC server: handlers by the table of methods, authentication, health, reflection and drain.

A handler takes (request message, Call) and returns a response message, or yields them for a streaming method. It raises
AntiphonErrors. Any other exception is a bug and becomes INTERNAL; its cause is logged and not sent. Callers are
authenticated by the headers of their call before any of their request is received (intake.py). Only health needs no
authentication, for probes (health.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Any

from antiphon_core.errors import (
    InvalidRequest,
    PermissionDenied,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from antiphon_core.limits import RPC_CONNECTION_STREAMS_ITEMS_MAX, RPC_CONNECTIONS_ITEMS_MAX, RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc import callers, health, reflection
from antiphon_core.rpc.addresses import address
from antiphon_core.rpc.authentication import caller_metadata, text_metadata
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT, TENANT_KEY
from antiphon_core.rpc.checked_stream import CheckedStream
from antiphon_core.rpc.codec import decode, encode
from antiphon_core.rpc.delivery import Delivery
from antiphon_core.rpc.health import Health
from antiphon_core.rpc.intake import Intake, IntakeLimits, Request
from antiphon_core.rpc.observed import ServedCall
from antiphon_core.rpc.pusher import Pusher
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.services import Api, Method
from antiphon_core.rpc.status import to_status
from antiphon_core.telemetry import remedies
from antiphon_core.telemetry.log_limit import LogLimit
from antiphon_core.tracebacks import release_frames
from antiphon_core.unexpected import as_antiphon_error
from antiphon_http2.server.call import Serve, ServerCall
from antiphon_http2.server.options import ServerOptions
from antiphon_http2.server.server import GrpcServer

log = logging.getLogger(__name__)

READY_POLL_S = 0.5
OPEN = ServerSecurity()
FAILED = "The server failed to handle this call. Its log says why."

OPTIONS = ServerOptions(
    message_bytes_max=RPC_MESSAGE_BYTES_MAX,
    streams_max=RPC_CONNECTION_STREAMS_ITEMS_MAX,
    connections_max=RPC_CONNECTIONS_ITEMS_MAX,
)


@dataclass(frozen=True, slots=True)
class Call:
    """The context of an RPC for its handler. `pusher` sends answers of a stream past the handler's task; None where
    they have to be yielded."""

    tenant: str
    time_remaining_s: float | None
    pusher: Pusher | None = None


Handler = Callable[[Any, Call], "Awaitable[Any] | AsyncGenerator[Any, None]"]
Ready = Callable[[], Awaitable[None]]
Rejections = defaultdict[str, LogLimit]
"""The limits of log lines for rejected calls, by cause: what an unknown caller lacks, or the name of a known one."""


class RpcServer:
    """A gRPC server for one or more APIs. Without `security` calls are not authenticated. `limits` are those of
    requests in progress. With `shares_port` other processes of this user may listen on the same port, and the kernel
    distributes connections among them. The server of antiphon_http2 carries the calls; handlers do not know it."""

    def __init__(
        self,
        security: ServerSecurity = OPEN,
        *,
        limits: IntakeLimits | None = None,
        shares_port: bool = False,
        options: ServerOptions = OPTIONS,
    ) -> None:
        self._security = security
        self._shares_port = shares_port
        self._methods: dict[str, Serve] = {}
        self._server = GrpcServer(self._methods.get, read_tls=security.tls, options=options)
        self._intake = Intake(limits or IntakeLimits())
        self._delivery = Delivery(limits or IntakeLimits())
        self._rejections: Rejections = defaultdict(LogLimit)
        self._health = Health(self._look_for_room)
        self._ready: dict[Api, Ready] = {}
        self._look: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None

    def add(self, api: Api, handlers: Mapping[str, Handler], *, ready: Ready) -> None:
        """Serves the services of `api`. Methods without a handler answer UNIMPLEMENTED. `ready` raises Unavailable if
        the services cannot serve; their health follows within READY_POLL_S. If the error `is_full`, only services that
        need room are reported as not serving."""
        for name, method in api.methods.items():
            served = self._build_served(method, handlers.get(name, _reject_unimplemented(method)))
            self._methods[method.path] = _streaming(served) if method.is_streaming else _unary(served)
        self._ready[api] = ready

    def _build_served(self, method: Method, handler: Handler) -> _Served:
        return _Served(method, handler, self._security, self._intake, self._delivery, self._rejections)

    async def start(self, host: str, port: int) -> int:
        """Listens and serves. Returns the port, which the system chooses for port 0. OSError: it cannot listen."""
        served = [service.full_name for api in self._ready for service in api.services]
        names = [*served, health.SERVICE_NAME, reflection.SERVICE_NAME]
        self._methods |= self._health.methods()
        self._methods |= reflection.methods(names, self._security, self._intake)
        bound = await self._listen(host, port)
        await self._report_health()
        self._watcher = asyncio.create_task(self._watch_health(), name="grpc health")
        return bound

    async def _listen(self, host: str, port: int) -> int:
        try:
            return await self._server.listen(host, port, shares_port=self._shares_port)
        except OSError as error:
            reason = "the port is in use, or the host is no address of this machine"
            raise OSError(f"Cannot listen on {address(host, port)}: {reason}.") from error

    @property
    def calls(self) -> int:
        """The number of calls in progress."""
        return self._intake.budget.calls

    async def drain(self, grace_s: float) -> None:
        """Reports NOT_SERVING, rejects new RPCs, and waits up to `grace_s` for running ones."""
        if self._watcher is not None:
            self._watcher.cancel()
            with suppress(asyncio.CancelledError):
                await self._watcher
        await self._health.drain()
        await self._server.drain(grace_s)

    async def _watch_health(self) -> None:
        while True:
            await asyncio.sleep(READY_POLL_S)
            await self._report_health()

    async def _look_for_room(self, service: str) -> None:
        """Updates the health of a full service before a health check answers, so that freed room is noticed at once."""
        fault = self._health.fault(service)
        if fault is not None and fault.is_full:
            if self._look is None or self._look.done():
                self._look = asyncio.create_task(self._report_health(), name="look for room")
            await asyncio.wait([self._look])

    async def _report_health(self) -> None:
        for api, ready in self._ready.items():
            fault = await _fault(api.name, ready)
            for service in api.services:
                concerns = fault is not None and (service.needs_room or not fault.is_full)
                self._health.report(service.full_name, fault if concerns else None)


async def _fault(name: str, ready: Ready) -> Unavailable | None:
    """The fault that a readiness check finds."""
    try:
        await ready()
    except Unavailable as error:
        return error
    except Exception:
        log.exception("the readiness check of %s failed", name, extra=remedies.REPORT)
        return Unavailable(f"The readiness check of {name} failed. Its log says why.")
    return None


@dataclass(frozen=True, slots=True)
class _Served:
    """One method with its handler, and the checks before the handler is called."""

    method: Method
    handler: Handler
    security: ServerSecurity
    intake: Intake
    delivery: Delivery
    rejections: Rejections

    def admit(self, rpc: ServerCall) -> tuple[str, Call]:
        """Authenticates and authorizes a call. Returns the caller's name, and the context for the handler.
        Unauthenticated, PermissionDenied, Unavailable, InvalidRequest."""
        self.security.require_usable()
        metadata = caller_metadata(rpc.metadata)
        tenant = metadata.get(TENANT_KEY) or DEFAULT_TENANT
        call = Call(tenant=tenant, time_remaining_s=rpc.time_remaining_s())
        guard = self.security.guard
        path, roles = self.method.path, self.method.row.roles
        if guard is None:
            rpc.authenticate()
            return callers.host_of(rpc.peer), call
        caller = callers.name_of(guard.admit(metadata, rpc.certificate, tenant, path, roles).name)
        callers.note(rpc, caller)
        return caller, call

    def answers(self, rpc: ServerCall, request: Any, call: Call) -> AsyncGenerator[Any, None]:
        """Calls the handler of a stream. Its caller is admitted again while it runs, where the method asks for it."""
        answers: Any = self.handler(request, call)
        guard, method = self.security.guard, self.method
        if guard is None or not method.row.is_checked_again:
            return answers  # type: ignore[no-any-return]
        metadata, certificate = caller_metadata(rpc.metadata), rpc.certificate
        name = guard.identify(metadata, certificate).name
        check = partial(guard.admit_again, name, metadata, certificate, call.tenant, method.path, method.row.roles)
        return CheckedStream(answers, check).read()

    async def receive(self, rpc: ServerCall, caller: str) -> Request:
        """Receives the call's request. InvalidRequest: the call has none. Raises what `Intake.receive` raises."""
        request = await self.intake.receive(rpc, caller)
        if request is None:
            raise InvalidRequest("The call carries no request.")
        return request


def _unary(served: _Served) -> Serve:
    async def serve(rpc: ServerCall) -> None:
        with ServedCall(served.method, rpc) as observed:
            try:
                rpc.send(await _answer(served, rpc, observed))
            except Exception as error:  # noqa: BLE001 - the boundary: every error becomes a status
                _reject(rpc, served, error, observed)

    return serve


async def _answer(served: _Served, rpc: ServerCall, observed: ServedCall) -> bytes:
    caller, call = served.admit(rpc)
    observed.record_caller(caller, call.tenant)
    with served.intake.budget.call(caller), await served.receive(rpc, caller) as data:
        request = decode(served.method.request, data)
        observed.record_request(request)
        answer: Any = await served.handler(request, call)  # type: ignore[misc]
    return served.delivery.count(rpc, caller, encode(served.method.response, answer))


def _streaming(served: _Served) -> Serve:
    """Counts the request in the intake's budget only until it is decoded, since a stream may last long."""
    method = served.method

    async def serve(rpc: ServerCall) -> None:
        with ServedCall(method, rpc) as observed:
            try:
                caller, call = served.admit(rpc)
                observed.record_caller(caller, call.tenant)
                if not method.row.is_checked_again:  # else each answer waits for its check
                    call = replace(call, pusher=Pusher(rpc, method.response))
                with served.intake.budget.call(caller):
                    answers = await _begin_stream(served, rpc, observed, caller, call)
                    async with aclosing(answers):
                        async for answer in answers:
                            with served.delivery.count_answer(caller, encode(method.response, answer)) as data:
                                rpc.send(data)
                                if rpc.is_full:
                                    await rpc.room()
            except Exception as error:  # noqa: BLE001 - the boundary: every error becomes a status
                _reject(rpc, served, error, observed)

    return serve


async def _begin_stream(served: _Served, rpc: ServerCall, observed: ServedCall, caller: str, call: Call) -> Any:
    """Receives the request of a stream, and returns the answers to it."""
    with await served.receive(rpc, caller) as data:
        request = decode(served.method.request, data)
        observed.record_request(request)
        return served.answers(rpc, request, call)


def _reject(rpc: ServerCall, served: _Served, error: Exception, observed: ServedCall) -> None:
    """Ends a call with an error."""
    fault = as_antiphon_error(error, served.method.path, FAILED)
    observed.record_failure(fault)
    if isinstance(fault, PermissionDenied):
        tenant = text_metadata(rpc.metadata).get(TENANT_KEY) or DEFAULT_TENANT
        observed.record_caller(callers.name_of(fault.facts.get("name", "")), tenant)
    if isinstance(fault, (Unauthenticated, PermissionDenied)):
        _log_rejection(served, fault, rpc.peer)
    release_frames(fault)
    rpc.finish(to_status(fault))


def _log_rejection(served: _Served, error: Unauthenticated | PermissionDenied, peer: str) -> None:
    """Logs a rejected call, and of each cause one line in a while: callers without a token can send thousands of calls
    a second. The audit log has them all."""
    cause = error.facts.get("name", "") if isinstance(error, PermissionDenied) else error.message
    if count := served.rejections[cause].count(monotonic()):
        others = f" So were {count - 1} calls before it." if count > 1 else ""
        log.warning("%s from %s was rejected: %s%s", served.method.path, peer, error.message, others)


def _reject_unimplemented(method: Method) -> Handler:
    name = f"{method.service}.{method.name}"

    async def reject(_request: Any, _call: Call) -> Any:
        raise Unimplemented.of(name)

    async def reject_stream(_request: Any, _call: Call) -> AsyncGenerator[Any, None]:
        raise Unimplemented.of(name)
        yield

    return reject_stream if method.is_streaming else reject
