"""A gRPC server with scripted answers for the public store client, and one interface to that client's synchronous and
asynchronous forms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import Message

from antiphon_store_client import AsyncStoreClient, StoreClient

PREFIX = "/antiphon.store.v1."


@dataclass(frozen=True)
class SeenCall:
    """One received call."""

    path: str
    request: bytes
    metadata: dict[str, str]
    time_remaining_s: float


@dataclass
class ScriptedStore(grpc.GenericRpcHandler):
    """Answers the calls of an RPC with `answers`, one after the other. An exception in `answers` is returned as its
    status."""

    answers: dict[str, list[Message | grpc.Status]] = field(default_factory=dict)
    calls: list[SeenCall] = field(default_factory=list)
    address: str = ""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        path = handler_call_details.method
        metadata = {key: str(value) for key, value in handler_call_details.invocation_metadata}

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.calls.append(SeenCall(path, request, metadata, context.time_remaining()))
            scripted = self.answers[path.removeprefix(PREFIX)].pop(0)
            if isinstance(scripted, Message):
                return scripted.SerializeToString()
            context.abort_with_status(scripted)
            raise AssertionError("aborting raises")

        return grpc.unary_unary_rpc_method_handler(answer)


@contextmanager
def scripted_store() -> Iterator[ScriptedStore]:
    handler = ScriptedStore()
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((handler,))
    handler.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield handler
    finally:
        server.stop(None).wait()


@dataclass(frozen=True)
class EitherFace:
    """Calls methods of a synchronous or asynchronous client by name, and awaits or collects their results."""

    client: StoreClient | AsyncStoreClient

    async def call(self, name: str, *args: object, **kwargs: object) -> Any:
        result = getattr(self.client, name)(*args, **kwargs)
        if inspect.isawaitable(result):
            return await result
        if inspect.isasyncgen(result):
            return [member async for member in result]
        return list(result) if inspect.isgenerator(result) else result

    async def close(self) -> None:
        closed: Any = self.client.close()
        if closed is not None:
            await closed


Opener = Callable[..., StoreClient | AsyncStoreClient]
FACES: list[Opener] = [StoreClient, AsyncStoreClient]
