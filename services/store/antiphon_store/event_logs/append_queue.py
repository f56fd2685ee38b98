"""Appends of one process on their way to a store elsewhere: those of one moment share an RPC.

An RPC costs several times what an append costs, and writers of event logs append at the same moments. The appends of
one pass of the event loop go out together, one RPC for each tenant; nothing waits for a timer or for an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_core.limits import APPEND_REQUEST_ITEMS_MAX, RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc import status
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.methods import STORE
from antiphon_core.telemetry import correlation
from antiphon_core.telemetry.correlation import Correlation

_AppendToLogsRequest = STORE.methods["AppendToLogs"].request.message
_BYTES_MAX = RPC_MESSAGE_BYTES_MAX // 2  # of requests that are joined


@dataclass(frozen=True, slots=True)
class _Append:
    tenant: str
    request: Any
    made_for: Correlation
    answer: asyncio.Future[int]


class AppendQueue:
    """Use inside one event loop."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc
        self._waiting: list[_Append] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def append(self, tenant: str, request: Any) -> int:
        """The next position of the log. Raises what AppendEvents raises; an append whose caller stops waiting may
        happen all the same."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._send)
        answer: asyncio.Future[int] = loop.create_future()
        self._waiting.append(_Append(tenant, request, correlation.current(), answer))
        return await answer

    async def close(self) -> None:
        """Returns when everything that was sent is answered. The RPC client must be closed."""
        if self._sending:
            await asyncio.wait(self._sending)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for appends in _requests([append for append in waiting if not append.answer.done()]):
            task = asyncio.get_running_loop().create_task(self._call(appends), name="appends to event logs")
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _call(self, appends: Sequence[_Append]) -> None:
        try:
            outcomes = await self._outcomes(appends)
        except AntiphonError as error:
            outcomes = [copy(error) for _ in appends]  # a copy each: raising one error twice mixes its tracebacks
        except BaseException:
            for append in appends:
                append.answer.cancel()
            raise
        for append, outcome in zip(appends, outcomes, strict=True):
            if append.answer.done():
                continue
            if isinstance(outcome, AntiphonError):
                append.answer.set_exception(outcome)
            else:
                append.answer.set_result(outcome)

    async def _outcomes(self, appends: Sequence[_Append]) -> Sequence[int | AntiphonError]:
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


def _requests(appends: Sequence[_Append]) -> Iterator[Sequence[_Append]]:
    """The appends of each tenant, as many in a request as it may have."""
    of_tenants: dict[str, list[_Append]] = {}
    for append in appends:
        of_tenants.setdefault(append.tenant, []).append(append)
    for of_tenant in of_tenants.values():
        yield from _cut(of_tenant)


def _cut(appends: Sequence[_Append]) -> Iterator[Sequence[_Append]]:
    taken: list[_Append] = []
    size_bytes = 0
    for append in appends:
        size_bytes += append.request.ByteSize()
        if taken and (len(taken) == APPEND_REQUEST_ITEMS_MAX or size_bytes > _BYTES_MAX):
            yield taken
            taken, size_bytes = [], append.request.ByteSize()
        taken.append(append)
    yield taken
