"""The client side of gRPC: the channels to a service, calls by method name, errors as the other side raised them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Self

import grpc
from grpc_health.v1 import health_pb2

from antiphon_core.errors import AntiphonError, Unavailable
from antiphon_core.rpc.addresses import stays_here
from antiphon_core.rpc.authentication import AUTHORIZATION_KEY
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT, TENANT_KEY
from antiphon_core.rpc.channels import Channels
from antiphon_core.rpc.codec import decode_answer, encode_request
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.health import fault_in
from antiphon_core.rpc.observed import MadeCall
from antiphon_core.rpc.services import Api, Method
from antiphon_core.rpc.status import from_rpc_error
from antiphon_core.telemetry import correlation

log = logging.getLogger(__name__)

READY_DEADLINE_S = 1.0
UNANSWERED_S = 0.5
"""A server that has not answered a health check for so long is connected anew. It answers at once, without work."""


class RpcClient:
    """Calls the services of one API. Must be made and used inside a running event loop, and closed.

    `endpoint` is a gRPC target: `host:port`, or `dns:///name:port` to spread calls over everything the name resolves
    to. `unavailable` is raised when the service cannot be reached. Each call is one attempt (retrying.py).
    SettingsError: a file of `credentials` will not do.
    """

    def __init__(
        self,
        endpoint: str,
        api: Api,
        *,
        unavailable: type[Unavailable],
        credentials: ClientCredentials = ANONYMOUS,
    ) -> None:
        self._api = api
        self._unavailable = unavailable
        self._token = credentials.open_token()
        tls = credentials.open_tls()
        if tls is None and self._token is not None and not stays_here(endpoint):
            log.warning("the token for %s is sent without encryption; tls_ca_file turns TLS on", endpoint)
        self._channels = Channels(endpoint, api, tls)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._channels.close()

    async def call(
        self,
        name: str,
        request: Any,
        *,
        tenant: str = DEFAULT_TENANT,
        timeout_s: float | None = None,
    ) -> Any:
        """The answer of a unary RPC. AntiphonError: what the service raised, or why it could not be asked."""
        method = self._api.methods[name]
        with MadeCall(method) as made:
            try:
                return decode_answer(method.response, await self._answer(method, request, tenant, timeout_s))
            except AntiphonError as fault:
                made.record_failure(fault)
                raise

    async def _answer(self, method: Method, request: Any, tenant: str, timeout_s: float | None) -> bytes:
        """The bytes of the answer to a unary RPC. Raises like `call`."""
        try:
            data: bytes = await self._start(method, request, tenant, timeout_s)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, self._unavailable) from error
        except asyncio.CancelledError:
            if _is_task_cancelled():
                raise
            raise self._closed_error() from None
        return data

    async def stream(
        self,
        name: str,
        request: Any,
        *,
        tenant: str = DEFAULT_TENANT,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[Any, None]:
        """The answers of a streaming RPC. Closing the generator cancels the RPC. Raises as `call`."""
        method = self._api.methods[name]
        with MadeCall(method) as made:
            rpc = self._start(method, request, tenant, timeout_s)
            try:
                async with aclosing(self._read(rpc)) as answers:
                    async for data in answers:
                        made.step_out()
                        yield decode_answer(method.response, data)
            except AntiphonError as fault:
                made.record_failure(fault)
                raise

    async def _read(self, rpc: Any) -> AsyncGenerator[bytes, None]:
        """Reads a streaming RPC. Raises like `stream`."""
        try:
            while (data := await rpc.read()) is not grpc.aio.EOF:
                yield data
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error, self._unavailable) from error
        except asyncio.CancelledError:
            if _is_task_cancelled():
                raise
            raise self._closed_error() from None
        finally:
            rpc.cancel()

    async def ready(self) -> None:
        """Returns when all services report SERVING. Otherwise raises the fault that a server reports, such as one that
        is_full when only those that need room do not serve, or `unavailable`."""
        unanswered = asyncio.get_running_loop().call_later(UNANSWERED_S, self._channels.reconnect)
        try:
            await self._check_health()
        finally:
            unanswered.cancel()

    async def _check_health(self) -> None:
        """Raises like `ready`."""
        service = self._api.demanding_name
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            check = self._channels.choose().health.Check(request, timeout=READY_DEADLINE_S)
            answer = await check
        except grpc.aio.UsageError as error:
            raise self._closed_error() from error
        except grpc.aio.AioRpcError as error:
            away = error.code() is grpc.StatusCode.UNAVAILABLE or None
            fault = from_rpc_error(error, self._unavailable)  # without addresses: readiness needs no authentication
            raise self._unavailable(f"{self._api.name}: {fault.message}", away=away) from error
        if answer.status != health_pb2.HealthCheckResponse.SERVING:
            reported = fault_in(await check.trailing_metadata(), self._unavailable)
            raise reported or self._unavailable(f"{service} reports that it is not ready.")

    def _start(self, method: Method, request: Any, tenant: str, timeout_s: float | None) -> Any:
        metadata = call_metadata(tenant, self._token)
        timeout = timeout_s if timeout_s is not None else method.deadline_s
        try:
            call = self._channels.choose().methods[method.name]
            return call(encode_request(method.request, request), timeout=timeout, metadata=metadata)
        except grpc.aio.UsageError as error:
            raise self._closed_error() from error

    def _closed_error(self) -> Unavailable:
        return self._unavailable("The call was cancelled because its channel was closed.")


def call_metadata(tenant: str, token: Callable[[], str] | None) -> list[tuple[str, str]]:
    """Makes the metadata of a call: its tenant, the ids of what it is made for, and the caller's token."""
    metadata = [(TENANT_KEY, tenant), *correlation.service_headers()]
    if token is not None:
        metadata.append((AUTHORIZATION_KEY, f"Bearer {token()}"))
    return metadata


def _is_task_cancelled() -> bool:
    """Whether a CancelledError is the task's own. grpc.aio raises one for a call that was cancelled locally, too."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
