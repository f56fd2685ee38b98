"""gRPC's reflection service, for authenticated callers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from typing import Any

from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from antiphon_core.errors import AntiphonError
from antiphon_core.rpc import callers
from antiphon_core.rpc.codec import decode_plain
from antiphon_core.rpc.intake import Intake
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.status import to_status
from antiphon_http2.server.call import Serve, ServerCall
from antiphon_protos.google_proto_descriptor_pool import default_google_proto_descriptor_pool

SERVICE_NAME: str = reflection.SERVICE_NAME


def methods(names: Sequence[str], security: ServerSecurity, intake: Intake) -> Mapping[str, Serve]:
    """Reflection for the services `names`, by path. Callers must be authenticated, with any tenant and role."""
    servicer: Any = reflection.aio.ReflectionServicer(names, pool=_pool())

    async def describe(call: ServerCall) -> None:
        try:
            caller = callers.identify(call, security)
            with intake.budget.call(caller):
                async for answer in servicer.ServerReflectionInfo(_receive_requests(intake, call, caller), None):
                    call.send(answer.SerializeToString())
                    await call.room()
        except AntiphonError as error:
            call.finish(to_status(error))

    return {f"/{SERVICE_NAME}/ServerReflectionInfo": describe}


async def _receive_requests(
    intake: Intake, call: ServerCall, caller: str
) -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
    while (request := await intake.receive(call, caller)) is not None:
        request.release()
        yield decode_plain(reflection_pb2.ServerReflectionRequest, request.data)


@cache
def _pool() -> DescriptorPool:
    """The descriptors of all served messages: Antiphon's, and those of gRPC's health and reflection services."""
    for module in (health_pb2, reflection_pb2):
        default_google_proto_descriptor_pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    return default_google_proto_descriptor_pool
