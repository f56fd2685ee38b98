"""The server side of gRPC: handlers from the table of methods, who may call them, health, reflection, drain.

A handler takes (request message, Call) and gives a response message, or yields them for a streaming method. It raises
AntiphonError for what went wrong; anything else is a bug and becomes INTERNAL, its cause logged and not sent. Callers
are known before anything of their request is read; health alone is open to all, for probes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from antiphon_core.errors import (
    AntiphonError,
    InternalError,
    PermissionDenied,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc import reflection
from antiphon_core.rpc.addresses import address
from antiphon_core.rpc.authentication import Guard, text_metadata
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT, TENANT_KEY
from antiphon_core.rpc.codec import decode, encode
from antiphon_core.rpc.observed import ServedCall
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.services import Api, Method
from antiphon_core.rpc.status import to_status
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)

READY_POLL_S = 1.0
OPEN = ServerSecurity()

_OPTIONS = [
    ("grpc.max_receive_message_length", RPC_MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", RPC_MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    # Clients look their endpoints up again after this long; the grace outlives the longest stream.
    ("grpc.max_connection_age_ms", 600_000),
    ("grpc.max_connection_age_grace_ms", 3_600_000),
]


@dataclass(frozen=True, slots=True)
class Call:
    """The context of an RPC, for its handler: everything but the request."""

    tenant: str
    time_remaining_s: float | None


Handler = Callable[[Any, Call], "Awaitable[Any] | AsyncGenerator[Any, None]"]
Ready = Callable[[], Awaitable[None]]


class RpcServer:
    """A gRPC server for one or more APIs. Without `security` whoever reaches it may call, for every tenant. With
    `shares_port` other processes of this user may listen on its port, too: each connection is one of theirs or ours."""

    def __init__(self, security: ServerSecurity = OPEN, *, shares_port: bool = False) -> None:
        self._security = security
        self._server = grpc.aio.server(options=[*_OPTIONS, ("grpc.so_reuseport", int(shares_port))])
        self._health = health.aio.HealthServicer()
        self._ready: dict[str, Ready] = {}
        self._watcher: asyncio.Task[None] | None = None

    def add(self, api: Api, handlers: Mapping[str, Handler], *, ready: Ready) -> None:
        """Serves the services of `api`. Methods without a handler answer UNIMPLEMENTED. `ready` raises Unavailable when
        they cannot serve; their health follows within READY_POLL_S."""
        for service in api.services:
            rpc_handlers = {
                name: _rpc_handler(method, handlers.get(name, _unimplemented(method)), self._security.guard)
                for name, method in service.methods.items()
            }
            generic = grpc.method_handlers_generic_handler(service.full_name, rpc_handlers)
            self._server.add_generic_rpc_handlers((generic,))
            self._ready[service.full_name] = ready

    async def start(self, host: str, port: int) -> int:
        """Binds and serves; the port that it got. Port 0 lets the system choose."""
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = [*self._ready, health.SERVICE_NAME, reflection.SERVICE_NAME]
        reflection.serve_reflection(self._server, names, self._security.guard)
        bound = self._bind(address(host, port))
        await self._server.start()
        await self._report_health()
        self._watcher = asyncio.create_task(self._watch_health(), name="grpc health")
        return bound

    def _bind(self, at: str) -> int:
        if self._security.tls is None:
            return self._server.add_insecure_port(at)
        return self._server.add_secure_port(at, self._security.tls)

    async def drain(self, grace_s: float) -> None:
        """Reports NOT_SERVING, refuses new RPCs and lets running ones end, for at most `grace_s`."""
        if self._watcher is not None:
            self._watcher.cancel()
            with suppress(asyncio.CancelledError):
                await self._watcher
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)

    async def _watch_health(self) -> None:
        while True:
            await asyncio.sleep(READY_POLL_S)
            await self._report_health()

    async def _report_health(self) -> None:
        for name, ready in self._ready.items():
            serving = await _is_ready(name, ready)
            answer = health_pb2.HealthCheckResponse
            await self._health.set(name, answer.SERVING if serving else answer.NOT_SERVING)


async def _is_ready(name: str, ready: Ready) -> bool:
    try:
        await ready()
    except Unavailable:
        return False
    except Exception:
        log.exception("the readiness check of %s broke", name, extra=remedies.REPORT)
        return False
    return True


def _rpc_handler(method: Method, handler: Handler, guard: Guard | None) -> grpc.RpcMethodHandler[Any, Any]:
    if method.streams:
        return grpc.unary_stream_rpc_method_handler(_streaming(method, handler, guard))
    return grpc.unary_unary_rpc_method_handler(_unary(method, handler, guard))


def _unary(method: Method, handler: Handler, guard: Guard | None) -> Callable[..., Awaitable[bytes]]:
    async def serve(data: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        with ServedCall(method, context) as served:
            try:
                call = _call(context, method, guard)
                answer: Any = await handler(decode(method.request, data), call)  # type: ignore[misc]
                return encode(method.response, answer)
            except Exception as error:  # noqa: BLE001 - the boundary: whatever it is becomes a status
                await _abort(context, method, error, served)

    return serve


def _streaming(method: Method, handler: Handler, guard: Guard | None) -> Callable[..., AsyncIterator[bytes]]:
    async def serve(data: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[bytes]:
        with ServedCall(method, context) as served:
            try:
                call = _call(context, method, guard)
                answers: Any = handler(decode(method.request, data), call)
                async with aclosing(answers):
                    async for answer in answers:
                        yield encode(method.response, answer)
            except Exception as error:  # noqa: BLE001 - the boundary: whatever it is becomes a status
                await _abort(context, method, error, served)

    return serve


def _call(context: grpc.aio.ServicerContext[Any, Any], method: Method, guard: Guard | None) -> Call:
    metadata = text_metadata(context.invocation_metadata())
    tenant = metadata.get(TENANT_KEY) or DEFAULT_TENANT
    if guard is not None:
        guard.admit(metadata, context.auth_context(), tenant, method.path, method.row.roles)
    return Call(tenant=tenant, time_remaining_s=context.time_remaining())


async def _abort(
    context: grpc.aio.ServicerContext[Any, Any], method: Method, error: Exception, served: ServedCall
) -> NoReturn:
    if isinstance(error, grpc.aio.AbortError):
        raise error
    error = known(error, method.path)
    served.failed(error)
    if isinstance(error, (Unauthenticated, PermissionDenied)):
        log.warning("%s from %s is refused: %s", method.path, context.peer(), error.message)
    await context.abort_with_status(to_status(error))


def known(error: Exception, what: str) -> AntiphonError:
    """The error as callers may see it: a bug becomes an InternalError, and its cause goes to the log."""
    if isinstance(error, AntiphonError):
        return error
    log.error("%s failed", what, exc_info=error, extra=remedies.REPORT)
    return InternalError("The server failed to handle this call. Its log says why.")


def _unimplemented(method: Method) -> Handler:
    name = f"{method.service}.{method.name}"

    async def refuse(_request: Any, _call: Call) -> Any:
        raise Unimplemented.of(name)

    async def refuse_stream(_request: Any, _call: Call) -> AsyncGenerator[Any, None]:
        raise Unimplemented.of(name)
        yield

    return refuse_stream if method.streams else refuse
