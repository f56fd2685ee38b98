"""The gRPC handlers of the service, one for each row of the table of methods.

Handlers let errors pass; `antiphon_core.rpc` makes statuses of them.

A handler reads the arguments of the row's method from the request, calls that method of the service, and makes its
result an answer (`calls.Operation`). AppendToLogs alone has a handler of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from antiphon_core.limits import APPEND_REQUEST_ITEMS_MAX
from antiphon_core.ports.checks import check_range
from antiphon_core.ports.event_logs import EventLogs
from antiphon_core.rpc import status
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.server import FAILED, Call, Handler
from antiphon_core.unexpected import as_antiphon_error
from antiphon_store.calls import OPERATIONS
from antiphon_store.service import StoreService


def handlers(service: StoreService) -> Mapping[str, Handler]:
    """The handlers that RpcServer.add needs besides the table of methods."""
    made = {name: each.handler(getattr(service, each.port.__name__)) for name, each in OPERATIONS.items()}
    return {**made, "AppendToLogs": _append_to_logs(service)}


def _append_to_logs(service: EventLogs) -> Handler:
    answer_of = STORE.methods["AppendToLogs"].response.message
    arguments_of = OPERATIONS["AppendEvents"].arguments

    async def outcome(tenant: str, append: Any) -> dict[str, Any]:
        try:
            return {"next_position": await service.append_events(tenant, **arguments_of(append))}
        except Exception as error:  # noqa: BLE001 - a boundary: the other appends of the request go on
            fault = as_antiphon_error(error, f"an append to the log of {append.response_id}", FAILED)
            return {"error": status.to_bytes(fault)}

    async def handle(request: Any, call: Call) -> Any:
        check_range(len(request.appends), "appends", 1, APPEND_REQUEST_ITEMS_MAX)
        outcomes = [outcome(call.tenant, append) for append in request.appends]
        return answer_of(results=await asyncio.gather(*outcomes))

    return handle
