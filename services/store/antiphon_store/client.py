"""The gRPC client of the store, with the operations, results and errors of `StoreService`.

    async with StoreClient("store:50051") as store:
        record = await store.get("default", response_id)

Needs the base install only. Each operation is a method of the ports; its request and its response come from the table
of methods (`calls.Operation`). Arguments are checked before they are sent, as in the service.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from antiphon_core import offload
from antiphon_core.errors import InvalidRequest, StoreUnavailable
from antiphon_core.ports.approvals import Approvals
from antiphon_core.ports.conversations import ConversationStore
from antiphon_core.ports.event_logs import EventAppend, EventLogs
from antiphon_core.ports.jobs import Jobs
from antiphon_core.ports.lineage import LineageStore
from antiphon_core.ports.prompts import PromptStore
from antiphon_core.ports.quotas import Quotas
from antiphon_core.ports.retention import Retention
from antiphon_core.ports.store import Fence, ResponseStore
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.methods import STORE
from antiphon_store.append_queue import AppendQueue
from antiphon_store.calls import OPERATION_OF, OPERATIONS, work_bytes_of

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def _call(
    port: Callable[Concatenate[Any, _Parameters], Coroutine[Any, Any, _Result]],
) -> Callable[Concatenate[StoreClient, _Parameters], Coroutine[Any, Any, _Result]]:
    """Makes the client method that sends `port` as a unary RPC."""
    operation = OPERATION_OF[port]

    async def call(self: StoreClient, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        named = operation.bind(args, kwargs)
        try:
            answer = await self._rpc.call(operation.rpc, operation.request(named), tenant=named["tenant"])
        except InvalidRequest as error:
            operation.name_for_port(error)
            raise
        return await offload.run(partial(operation.answer.get, answer), size_bytes=work_bytes_of(answer))

    return call


def _stream(
    port: Callable[Concatenate[Any, _Parameters], AsyncGenerator[_Result, None]],
) -> Callable[Concatenate[StoreClient, _Parameters], AsyncGenerator[_Result, None]]:
    """Makes the client method that sends `port` as a server-streaming RPC."""
    operation = OPERATION_OF[port]

    async def stream(
        self: StoreClient, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> AsyncGenerator[_Result, None]:
        named = operation.bind(args, kwargs)
        reading = self._rpc.stream(operation.rpc, operation.request(named), tenant=named["tenant"])
        async with aclosing(reading) as answers:
            async for answer in answers:
                yield operation.answer.get(answer)

    return stream


class StoreClient:
    """Implements `antiphon_core.ports.full_store.FullStore` and `Retention`. Make and use it inside a running event
    loop, and close it.

    `endpoint` is a gRPC target: `host:port`, or `dns:///name:port` to spread calls over all replicas. Every call raises
    StoreUnavailable when the store cannot be reached and Timeout when it does not answer in time; a write may have
    happened then, and can be sent again as it is; no call repeats itself (retrying.py). A store that asks for a token
    or a certificate gets it from `credentials` (SettingsError: a file of theirs will not do); calls raise
    Unauthenticated or PermissionDenied when it does not accept them.
    """

    def __init__(self, endpoint: str, *, credentials: ClientCredentials = ANONYMOUS) -> None:
        self._rpc = RpcClient(endpoint, STORE, unavailable=StoreUnavailable, credentials=credentials)
        self._appends = AppendQueue(self._rpc)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._rpc.close()
        await self._appends.close()

    async def ready(self) -> None:
        await self._rpc.ready()

    put = _call(ResponseStore.put)
    get = _call(ResponseStore.get)
    batch_get = _call(LineageStore.batch_get)
    update_status = _call(LineageStore.update_status)
    delete = _call(ResponseStore.delete)
    list_responses = _call(LineageStore.list_responses)
    list_items = _call(ResponseStore.list_items)
    resolve_items = _call(LineageStore.resolve_items)

    chain = _call(ResponseStore.chain)
    fork = _call(LineageStore.fork)
    tree = _call(LineageStore.tree)
    children = _call(LineageStore.children)
    siblings = _call(LineageStore.siblings)
    leaves = _call(LineageStore.leaves)

    acquire_session = _call(ResponseStore.acquire_session)
    renew_session = _call(ResponseStore.renew_session)
    release_session = _call(ResponseStore.release_session)
    describe_session = _call(ResponseStore.describe_session)

    create_conversation = _call(ConversationStore.create_conversation)
    get_conversation = _call(ConversationStore.get_conversation)
    update_conversation = _call(ConversationStore.update_conversation)
    delete_conversation = _call(ConversationStore.delete_conversation)
    add_conversation_items = _call(ConversationStore.add_conversation_items)
    list_conversation_items = _call(ConversationStore.list_conversation_items)
    get_conversation_item = _call(ConversationStore.get_conversation_item)
    delete_conversation_item = _call(ConversationStore.delete_conversation_item)

    begin_turn = _call(ResponseStore.begin_turn)
    commit_turn = _call(ResponseStore.commit_turn)
    abort_turn = _call(ResponseStore.abort_turn)

    read_events = _stream(EventLogs.read_events)

    enqueue_job = _call(Jobs.enqueue_job)
    claim_job = _call(Jobs.claim_job)
    heartbeat_job = _call(Jobs.heartbeat_job)
    settle_job = _call(Jobs.settle_job)
    cancel_job = _call(Jobs.cancel_job)
    describe_job = _call(Jobs.describe_job)

    put_prompt = _call(PromptStore.put_prompt)
    get_prompt = _call(PromptStore.get_prompt)
    list_prompts = _call(PromptStore.list_prompts)
    delete_prompt = _call(PromptStore.delete_prompt)

    list_approvals = _call(Approvals.list_approvals)
    hold_approvals = _call(Approvals.hold_approvals)
    return_approvals = _call(Approvals.return_approvals)

    take_quota = _call(Quotas.take_quota)
    sweep = _call(Retention.sweep)

    async def append_events(self, tenant: str, append: EventAppend, *, fence: Fence | None = None) -> int:
        operation = OPERATIONS["AppendEvents"]
        named = operation.bind((tenant, append), {"fence": fence})
        return await self._appends.append(tenant, operation.request(named))
