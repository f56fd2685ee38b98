"""The gRPC handlers of the service, one for each row of the table of methods.

Handlers let errors pass; `antiphon_core.rpc` makes statuses of them.

A handler reads the arguments of the row's method from the request, calls that method of the service, and makes its
result an answer (`calls.CODECS`). AppendToLogs alone has a handler of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from antiphon_core import offload
from antiphon_core.errors import InvalidRequest
from antiphon_core.limits import APPEND_REQUEST_ITEMS_MAX
from antiphon_core.ports.event_logs import EventLogs
from antiphon_core.rpc import status
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import FAILED, Call, Handler
from antiphon_core.unexpected import as_antiphon_error
from antiphon_store.calls import CODECS, Codec, work_bytes_of
from antiphon_store.rules.common import check_range
from antiphon_store.service import StoreService


def handlers(service: StoreService) -> Mapping[str, Handler]:
    """The handlers that RpcServer.add needs besides the table of methods."""
    made = {
        name: (_stream if STORE.methods[name].streams else _unary)(
            codec, getattr(service, STORE.methods[name].row.port.__name__)
        )
        for name, codec in CODECS.items()
    }
    return {**made, "AppendToLogs": _append_to_logs(service)}


def _unary(codec: Codec, method: Any) -> Handler:
    async def handle(request: Any, call: Call) -> Any:
        try:
            result = await method(call.tenant, **codec.arguments(request))
            return await offload.run(partial(codec.answer.put, result), size_bytes=work_bytes_of(result))
        except InvalidRequest as error:
            codec.name_for_wire(error)
            raise

    return handle


def _stream(codec: Codec, method: Any) -> Handler:
    async def handle(request: Any, call: Call) -> AsyncGenerator[Any, None]:
        async with aclosing(method(call.tenant, **codec.arguments(request))) as values:
            async for value in values:
                yield codec.answer.put(value)

    return handle


def _append_to_logs(service: EventLogs) -> Handler:
    answer_of = STORE.methods["AppendToLogs"].response.message

    async def outcome(tenant: str, append: Any) -> dict[str, Any]:
        try:
            return {"next_position": await service.append_events(tenant, **CODECS["AppendEvents"].arguments(append))}
        except Exception as error:  # noqa: BLE001 - a boundary: the other appends of the request go on
            fault = as_antiphon_error(error, f"an append to the log of {append.response_id}", FAILED)
            return {"error": status.to_bytes(fault)}

    async def handle(request: Any, call: Call) -> Any:
        check_range(len(request.appends), 1, APPEND_REQUEST_ITEMS_MAX, "appends")
        outcomes = [outcome(call.tenant, append) for append in request.appends]
        return answer_of(results=await asyncio.gather(*outcomes))

    return handle
