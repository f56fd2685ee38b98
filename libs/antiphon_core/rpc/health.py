"""gRPC's health service. It needs no authentication, for probes, so requests must be small and few at once per host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2

from antiphon_core.errors import AntiphonError, InvalidRequest
from antiphon_core.rpc import callers
from antiphon_core.rpc.codec import decode_plain
from antiphon_core.rpc.intake import Intake, IntakeLimits
from antiphon_core.rpc.status import to_status

SERVICE_NAME: str = health.SERVICE_NAME
LIMITS = IntakeLimits(bytes_max=2**20, caller_bytes_max=2**16, caller_calls_max=64)
"""Limits for requests that name a service. A request that is not complete at once counts as one of the greatest length
(intake.py), which exceeds them, and is rejected."""

_Answer = health_pb2.HealthCheckResponse


class Health:
    """The health of the services of one server. Before it answers Check, it awaits `refresh` with the name of the
    service, which may call `report`."""

    def __init__(self, refresh: Callable[[str], Awaitable[None]]) -> None:
        self._servicer = health.aio.HealthServicer()
        self._intake = Intake(LIMITS)
        self._refresh = refresh

    async def report(self, service: str, *, is_serving: bool) -> None:
        await self._servicer.set(service, _Answer.SERVING if is_serving else _Answer.NOT_SERVING)

    async def drain(self) -> None:
        """Reports NOT_SERVING for all services from now on."""
        await self._servicer.enter_graceful_shutdown()

    def handler(self) -> grpc.GenericRpcHandler:
        methods: dict[str, Any] = {
            "Check": grpc.stream_unary_rpc_method_handler(self._check),
            "Watch": grpc.stream_stream_rpc_method_handler(self._watch, response_serializer=_Answer.SerializeToString),
        }
        return grpc.method_handlers_generic_handler(SERVICE_NAME, methods)

    async def _check(self, _requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        try:
            with self._intake.budget.call(callers.host_of(context.peer())):
                request = await self._request(context)
                await self._refresh(request.service)
                answer = await self._servicer.Check(request, context)
        except AntiphonError as error:
            await context.abort_with_status(to_status(error))
        return bytes(answer.SerializeToString())

    async def _watch(self, _requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        try:
            with self._intake.budget.call(callers.host_of(context.peer())):
                await self._servicer.Watch(await self._request(context), context)
        except AntiphonError as error:
            await context.abort_with_status(to_status(error))

    async def _request(self, context: grpc.aio.ServicerContext[Any, Any]) -> health_pb2.HealthCheckRequest:
        request = await self._intake.receive(context, callers.host_of(context.peer()))
        if request is None:
            raise InvalidRequest("The call carries no request.")
        request.release()
        return decode_plain(health_pb2.HealthCheckRequest, request.data)
