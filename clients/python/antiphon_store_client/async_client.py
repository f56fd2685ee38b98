"""The client for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import grpc

from antiphon_store_client import operations
from antiphon_store_client.calls import Call, Pages
from antiphon_store_client.channels import OPTIONS, BaseClient, CallOptions, Token
from antiphon_store_client.errors import store_error

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def _method(
    operation: Callable[_Parameters, Call[_Result]],
) -> Callable[Concatenate[AsyncStoreClient, _Parameters], Coroutine[Any, Any, _Result]]:
    """Makes the method that sends the call of an operation."""

    @wraps(operation)
    async def method(self: AsyncStoreClient, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        return await self.send(operation(*args, **kwargs))

    return method


def _pages(
    operation: Callable[_Parameters, Pages[_Result]],
) -> Callable[Concatenate[AsyncStoreClient, _Parameters], AsyncIterator[_Result]]:
    """Makes the method that iterates over all pages of an operation, and requests each page when it is needed."""

    @wraps(operation)
    async def method(
        self: AsyncStoreClient, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> AsyncIterator[_Result]:
        pages = operation(*args, **kwargs)
        members, token = await self.send(pages.first)
        for member in members:
            yield member
        while token:
            members, token = await self.send(pages.after(token))
            for member in members:
                yield member

    return method


class AsyncStoreClient(BaseClient):
    """A connection to the store. Make and use it inside one running event loop, and close it (`close`, `async with`).

    `target` is a gRPC target: `host:port`, or `dns:///name:port` to spread calls over all replicas. `tls` comes from
    `tls_credentials`; without it the connection is not encrypted. `token` may be a function, for tokens that change.
    Every call raises StoreError.
    """

    def __init__(
        self,
        target: str,
        *,
        tenant: str = "default",
        token: Token | None = None,
        tls: grpc.ChannelCredentials | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self.options = CallOptions(tenant, token, timeout_s)
        self._channel: grpc.aio.Channel = (
            grpc.aio.insecure_channel(target, options=OPTIONS)
            if tls is None
            else grpc.aio.secure_channel(target, tls, options=OPTIONS)
        )
        self._callables: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection, for all views of it."""
        await self._channel.close()

    async def send(self, call: Call[_Result]) -> _Result:
        """Sends a call of `antiphon_store_client.operations`, and returns its result."""
        rpc = self._callables.get(call.path) or self._callables.setdefault(
            call.path,
            self._channel.unary_unary(
                call.path,
                request_serializer=type(call.request).SerializeToString,
                response_deserializer=call.answer.FromString,
            ),
        )
        try:
            answer = await rpc(
                call.request, timeout=self.options.deadline_s(call.path), metadata=self.options.metadata()
            )
        except grpc.RpcError as error:
            raise store_error(error) from error
        return call.result(answer)

    put = _method(operations.put)
    get = _method(operations.get)
    batch_get = _method(operations.batch_get)
    update_status = _method(operations.update_status)
    delete = _method(operations.delete)
    list_responses = _pages(operations.list_responses)
    list_items = _pages(operations.list_items)
    resolve_items = _method(operations.resolve_items)

    chain = _method(operations.chain)
    fork = _method(operations.fork)
    tree = _pages(operations.tree)
    children = _pages(operations.children)
    siblings = _pages(operations.siblings)
    leaves = _pages(operations.leaves)

    acquire_session = _method(operations.acquire_session)
    try_acquire_session = _method(operations.try_acquire_session)
    renew_session = _method(operations.renew_session)
    release_session = _method(operations.release_session)
    describe_session = _method(operations.describe_session)

    create_conversation = _method(operations.create_conversation)
    get_conversation = _method(operations.get_conversation)
    update_conversation = _method(operations.update_conversation)
    delete_conversation = _method(operations.delete_conversation)
    add_conversation_items = _method(operations.add_conversation_items)
    list_conversation_items = _pages(operations.list_conversation_items)
    get_conversation_item = _method(operations.get_conversation_item)
    delete_conversation_item = _method(operations.delete_conversation_item)
