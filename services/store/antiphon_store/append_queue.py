"""Joins the appends that one process sends to a remote store: appends of the same moment share an RPC.

An RPC costs several times what an append costs, and writers of event logs append at the same moments. The appends of
one pass of the event loop go out together, in one RPC for each tenant. No append waits for a timer, or for the answer
to an earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from antiphon_core.errors import StoreUnavailable
from antiphon_core.limits import APPEND_REQUEST_ITEMS_MAX, RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc import status
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.methods import STORE
from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.correlation import Correlation
from antiphon_store.joint_calls import JointCalls, Limits

_AppendToLogsRequest = STORE.methods["AppendToLogs"].request.message
TOGETHER = Limits(together=APPEND_REQUEST_ITEMS_MAX, together_bytes=RPC_MESSAGE_BYTES_MAX // 2)


@dataclass(frozen=True, slots=True)
class _Append:
    tenant: str
    request: Any
    made_for: Correlation


class AppendQueue:
    """Sends appends to the store. Use inside one event loop."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc
        self._joint_calls: JointCalls[_Append, int] = JointCalls(
            self._call,
            TOGETHER,
            size_bytes=lambda append: append.request.ByteSize(),
            fits=lambda others, append: not others or others[0].tenant == append.tenant,
        )

    async def append(self, tenant: str, request: Any) -> int:
        """Returns the next position of the log. Raises the errors of AppendEvents. An append may still happen after its
        caller was cancelled."""
        return await self._joint_calls.run(_Append(tenant, request, correlation.current()))

    async def close(self) -> None:
        """Waits until every append is answered. The RPC client must be closed first."""
        await self._joint_calls.settle()

    async def _call(self, appends: Sequence[_Append]) -> Sequence[int | Exception]:
        first = appends[0]
        correlation.begin(first.made_for)
        call = partial(self._rpc.call, tenant=first.tenant)
        if len(appends) == 1:
            answer = await call("AppendEvents", first.request)
            return [answer.next_position]
        request = _AppendToLogsRequest(appends=[append.request for append in appends])
        answer = await call("AppendToLogs", request)
        return [
            status.from_bytes(result.error, StoreUnavailable) if result.error else result.next_position
            for result in answer.results
        ]
