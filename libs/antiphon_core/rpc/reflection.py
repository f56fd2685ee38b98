"""Reflection: a server describes its services, to whom it would serve them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import cache
from typing import Any

from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from antiphon_core.errors import Unauthenticated
from antiphon_core.rpc.authentication import Guard, text_metadata
from antiphon_core.rpc.status import to_status
from antiphon_protos.google_proto_descriptor_pool import default_google_proto_descriptor_pool

SERVICE_NAME: str = reflection.SERVICE_NAME


def serve_reflection(server: Any, names: Sequence[str], guard: Guard | None) -> None:
    """Adds reflection of the services `names` to a server that has not started yet."""
    servicer: Any = reflection.aio.ReflectionServicer(names, pool=_pool())
    add: Any = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
    add(servicer if guard is None else _Guarded(servicer, guard), server)


class _Guarded:
    """Reflection for callers with a credential of any tenant and role."""

    def __init__(self, servicer: Any, guard: Guard) -> None:
        self._servicer = servicer
        self._guard = guard

    async def ServerReflectionInfo(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        try:
            self._guard.identify(text_metadata(context.invocation_metadata()), context.auth_context())
        except Unauthenticated as error:
            await context.abort_with_status(to_status(error))
        async for answer in self._servicer.ServerReflectionInfo(requests, context):
            yield answer


@cache
def _pool() -> DescriptorPool:
    """The descriptors of everything that is served: ours, and those of the two services that come with gRPC."""
    for module in (health_pb2, reflection_pb2):
        default_google_proto_descriptor_pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    return default_google_proto_descriptor_pool
