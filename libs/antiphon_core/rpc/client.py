"""The client side of gRPC: calls by method name over antiphon_http2, errors as the other side raised them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Self

from grpc_health.v1 import health_pb2

from antiphon_core.config import SettingsError
from antiphon_core.errors import AntiphonError, Unavailable
from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc.addresses import stays_here
from antiphon_core.rpc.authentication import AUTHORIZATION_KEY
from antiphon_core.rpc.call_metadata import DEFAULT_TENANT, TENANT_KEY
from antiphon_core.rpc.codec import decode_answer, encode_request
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.health import CHECK_PATH, fault_in
from antiphon_core.rpc.observed import MadeCall
from antiphon_core.rpc.services import Api, Method
from antiphon_core.rpc.status import from_grpc_error
from antiphon_core.rpc.unread_messages import UnreadMessages
from antiphon_core.telemetry import correlation
from antiphon_http2.client.balancing import BalancedStreams, Peer
from antiphon_http2.client.options import Options
from antiphon_http2.client.unary import Answer, call_unary
from antiphon_http2.errors import GrpcError
from antiphon_http2.statuses import DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNAVAILABLE

log = logging.getLogger(__name__)

READY_DEADLINE_S = 1.0
UNANSWERED_S = 0.5
"""A server that has not answered a health check for so long is connected anew. It answers at once, without work."""
OPTIONS = Options(keepalive_interval_s=30.0, keepalive_timeout_s=10.0, message_bytes_max=RPC_MESSAGE_BYTES_MAX)


class RpcClient:
    """Calls the services of one API. Must be made and used inside a running event loop, and closed.

    `endpoint` is `host:port`, `dns:///name:port` to spread calls over everything the name resolves to, or
    `ipv4:address:port,address:port`. `unavailable` is raised when the service cannot be reached. Each call is one
    attempt (retrying.py); a unary request that a server has not processed is sent once more, as gRPC's clients do.
    SettingsError: the endpoint is malformed, or a file of `credentials` will not do.
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
        tls = credentials.open_ssl()
        if tls is None and self._token is not None and not stays_here(endpoint):
            log.warning("the token for %s is sent without encryption; tls_ca_file turns TLS on", endpoint)
        try:
            self._streams = BalancedStreams(endpoint, read_tls=tls, options=OPTIONS, health_service=api.name)
        except ValueError as error:
            raise SettingsError(f"An address of a service is {error}.") from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends open calls as `unavailable`."""
        await self._streams.close()

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
        data = encode_request(method.request, request)
        with MadeCall(method) as made:
            try:
                answer = await self._answer(method, data, tenant, timeout_s)
                return decode_answer(method.response, answer.message)
            except GrpcError as error:
                raise made.record_failure(from_grpc_error(error, self._unavailable)) from error
            except AntiphonError as fault:
                made.record_failure(fault)
                raise

    async def _answer(self, method: Method, data: bytes, tenant: str, timeout_s: float | None) -> Answer:
        check_size(data)
        metadata = call_metadata(tenant, self._token)
        timeout_s = timeout_s if timeout_s is not None else method.deadline_s
        left_s, is_resent = _time_left(timeout_s), False
        while True:
            with self._streams.use(await self._choose(left_s())) as streams:
                try:
                    return await call_unary(streams, method.path, data, metadata=metadata, timeout_s=left_s())
                except GrpcError as error:
                    if is_resent or not error.is_unprocessed:
                        raise
                    is_resent = True

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
        data = encode_request(method.request, request)
        with MadeCall(method) as made:
            try:
                async with aclosing(self._read(method, data, tenant, timeout_s)) as answers:
                    async for message in answers:
                        made.step_out()
                        yield decode_answer(method.response, message)
            except GrpcError as error:
                raise made.record_failure(from_grpc_error(error, self._unavailable)) from error
            except AntiphonError as fault:
                made.record_failure(fault)
                raise

    async def _read(
        self, method: Method, data: bytes, tenant: str, timeout_s: float | None
    ) -> AsyncGenerator[bytes, None]:
        check_size(data)
        metadata = call_metadata(tenant, self._token)
        timeout_s = timeout_s if timeout_s is not None else method.deadline_s
        unread, left_s = UnreadMessages(), _time_left(timeout_s)
        with self._streams.use(await self._choose(left_s())) as streams:
            call = await streams.start(
                method.path, data, unread.receive, flow=unread.flow, metadata=metadata, timeout_s=left_s()
            )
            async with aclosing(unread.read(call)) as messages:
                async for message in messages:
                    yield message

    async def ready(self) -> None:
        """Returns when all services report SERVING. Otherwise raises the fault that a server reports, such as one that
        is_full when only those that need room do not serve, or `unavailable`."""
        service = self._api.demanding_name
        try:
            answer = await self._check_health(await self._choose(READY_DEADLINE_S), service)
        except GrpcError as error:
            away = error.status == UNAVAILABLE or None
            fault = from_grpc_error(error, self._unavailable)  # without addresses: readiness needs no authentication
            raise self._unavailable(f"{self._api.name}: {fault.message}", away=away) from error
        status = health_pb2.HealthCheckResponse.FromString(answer.message).status
        if status != health_pb2.HealthCheckResponse.SERVING:
            reported = fault_in(answer.trailers, self._unavailable)
            raise reported or self._unavailable(f"{service} reports that it is not ready.")

    async def _choose(self, timeout_s: float | None) -> Peer:
        """The server for a call. GrpcError: none can be reached, or none within the timeout of the call."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._streams.choose()
        except TimeoutError as error:
            raise GrpcError(DEADLINE_EXCEEDED, "There was no connection within the timeout of the call.") from error

    async def _check_health(self, peer: Peer, service: str) -> Answer:
        unanswered = asyncio.get_running_loop().call_later(UNANSWERED_S, self._streams.leave_silent, peer)
        request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
        try:
            with self._streams.use(peer) as streams:
                return await call_unary(streams, CHECK_PATH, request, timeout_s=READY_DEADLINE_S)
        finally:
            unanswered.cancel()


def _time_left(timeout_s: float | None) -> Callable[[], float | None]:
    """Makes the function that says how much of a timeout is left; at least a millisecond, which ends a call at once."""
    now_s = asyncio.get_running_loop().time
    if timeout_s is None:
        return lambda: None
    deadline_s = now_s() + timeout_s
    return lambda: max(deadline_s - now_s(), 0.001)


def call_metadata(tenant: str, token: Callable[[], str] | None) -> list[tuple[str, str]]:
    """Makes the metadata of a call: its tenant, the ids of what it is made for, and the caller's token."""
    metadata = [(TENANT_KEY, tenant), *correlation.service_headers()]
    if token is not None:
        metadata.append((AUTHORIZATION_KEY, f"Bearer {token()}"))
    return metadata


def check_size(data: bytes) -> None:
    """GrpcError: the server would refuse a request of this size."""
    if len(data) > RPC_MESSAGE_BYTES_MAX:
        raise GrpcError(RESOURCE_EXHAUSTED, f"A request has {len(data)} bytes, the limit is {RPC_MESSAGE_BYTES_MAX}.")
