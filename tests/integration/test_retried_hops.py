"""Each hop is tried exactly as often as its policy says: faults are injected behind real sockets and counted there, and
the pauses between attempts run on a clock of the test's own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from antiphon_core import events, response
from antiphon_core.clock import SystemClock
from antiphon_core.errors import (
    AntiphonError,
    EngineTimeout,
    EngineUnavailable,
    ResponseNotFound,
    StoreUnavailable,
    Timeout,
    TranslatorUnavailable,
    Unavailable,
)
from antiphon_core.flow import Flow
from antiphon_core.jsons import loads
from antiphon_core.ports.event_logs import EventBatch
from antiphon_core.ports.jobs import DISPATCH_TENANT
from antiphon_core.ports.translator import Batch, EndedTurn
from antiphon_core.retrying import CALL, GENERATION, ONCE, STORE, TAKEOVER, TRANSLATOR_CALL, Retry, RetryPolicy
from antiphon_core.rpc.methods import STORE as STORE_API
from antiphon_core.rpc.methods import TRANSLATOR as TRANSLATOR_API
from antiphon_core.rpc.server import Call, Handler, RpcServer
from antiphon_core.rpc.services import Api
from antiphon_edge.store_calls import retrying
from antiphon_edge.turns.event_logs import LogFollower
from antiphon_edge.turns.generation import Generation
from antiphon_store.backends.registry import row_backend
from antiphon_store.calls import OPERATIONS
from antiphon_store.client import StoreClient
from antiphon_store.server import handlers as store_handlers
from antiphon_store.service import StoreService
from antiphon_store.testing.calls import CALLS, operation_of
from antiphon_translator import wire
from antiphon_translator.client import TranslatorClient
from antiphon_translator.engines.endpoints import EndpointsEngine
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.models.profiles import ModelProfile
from antiphon_translator.server import handlers
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from tests.support.fake_chat import fake_chat
from tests.support.manual_pacing import ManualPacing, attempts_in
from tests.support.ports import free_ports
from tests.support.served_models import RESPONSE_ID, model, turn
from tests.support.waiting import WAIT_MAX_S

WAIT_S = 1.0  # the setting `restart_wait_s` of these tests
REPORTED_ATTEMPTS = 3
KEPT = {"append_events", "commit_turn"}
METHODS = {method.row.port.__name__ for method in STORE_API.methods.values()}
MADE_ONCE = {"heartbeat_job", "renew_session", "take_quota"}


async def is_ready() -> None:
    pass


class Faulty:
    """A server of one API whose methods all fail. It counts their calls."""

    def __init__(self, api: Api, fault: AntiphonError) -> None:
        self.calls: Counter[str] = Counter()
        self.handlers: dict[str, Handler] = {
            name: partial(self._stream if method.is_streaming else self._unary, name)
            for name, method in api.methods.items()
        }
        self._api = api
        self._fault = fault

    async def _unary(self, name: str, _request: Any, _call: Call) -> Any:
        self.calls[name] += 1
        raise self._fault

    async def _stream(self, name: str, _request: Any, _call: Call) -> AsyncGenerator[Any, None]:
        self.calls[name] += 1
        raise self._fault
        yield  # a generator

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = RpcServer()
        server.add(self._api, self.handlers, ready=is_ready)
        try:
            yield f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
        finally:
            await server.drain(0)


def policy_of(operation: str) -> RetryPolicy:
    """The policy of an operation of the store, as users rely on it."""
    if operation in MADE_ONCE:
        return ONCE
    return STORE[Retry.KEEP] if operation in KEPT else CALL


def attempts_at(policy: RetryPolicy, fault: AntiphonError) -> int:
    """How often a call is made that always ends with a fault of its own service, by the wait of these tests."""
    if policy is ONCE or not isinstance(fault, (Unavailable, Timeout)):
        return 1
    if policy is STORE[Retry.KEEP]:
        return attempts_in(policy, 10.0)
    if isinstance(fault, Timeout):
        return 1
    return attempts_in(policy, WAIT_S) if fault.is_away else REPORTED_ATTEMPTS


@pytest.mark.parametrize(
    "fault",
    [
        StoreUnavailable("A machine is gone.", away=True),
        StoreUnavailable("The database is lost."),
        Unavailable("Too many requests wait."),
        Timeout("No answer."),
        ResponseNotFound.of("r"),
    ],
    ids=["away", "reported", "overloaded", "timeout", "answer"],
)
async def test_every_call_of_the_store_is_tried_as_often_as_its_policy_says(fault: AntiphonError) -> None:
    server = Faulty(STORE_API, fault)
    async with server.serving() as endpoint, StoreClient(endpoint) as client:
        for name, call in CALLS.items():
            operation, manual = operation_of(name), ManualPacing()
            if operation not in METHODS:
                continue
            store = retrying(client, restart_wait_s=WAIT_S, pacing=manual.pacing)
            server.calls.clear()
            with pytest.raises(type(fault)):
                await call(store)
            assert server.calls.total() == attempts_at(policy_of(operation), fault), name


async def test_a_claim_that_another_worker_would_miss_is_made_once() -> None:
    server, manual = Faulty(STORE_API, StoreUnavailable("A machine is gone.", away=True)), ManualPacing()
    async with server.serving() as endpoint, StoreClient(endpoint) as client:
        store = retrying(client, pacing=manual.pacing)
        with pytest.raises(StoreUnavailable):
            await store.claim_job(DISPATCH_TENANT, ["q"], holder="h", lease_ttl_ms=1000)
    assert server.calls == {"ClaimJob": 1}


async def test_an_addition_whose_answer_is_lost_is_made_once() -> None:
    """The store stops after it has added the items and before it answers, as during a restart."""
    service = StoreService(row_backend("memory://"))
    await service.open()
    made = await service.create_conversation("t")
    server, manual = Faulty(STORE_API, StoreUnavailable("It is stopping.", away=True)), ManualPacing()
    add = store_handlers(service)["AddConversationItems"]

    async def lose_first_answer(request: Any, call: Call) -> Any:
        server.calls["AddConversationItems"] += 1
        answer: Any = await add(request, call)  # type: ignore[misc]
        if server.calls["AddConversationItems"] == 1:
            raise StoreUnavailable("It is stopping.", away=True)
        return answer

    server.handlers["AddConversationItems"] = lose_first_answer
    async with server.serving() as endpoint, StoreClient(endpoint) as client:
        items = b'[{"id":"msg_1","type":"message"}]'  # edges name the items that they add
        await retrying(client, pacing=manual.pacing).add_conversation_items("t", made.id, items)
    assert server.calls == {"AddConversationItems": 2}
    assert len(loads((await service.list_conversation_items("t", made.id)).items)) == 1


def progress(number: int) -> Batch:
    """A batch without output, behind which a translator can continue."""
    created = response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1)
    kind = events.IN_PROGRESS if number else events.CREATED
    return Batch(number, 1, events.encode({"type": kind, "sequence_number": number, "response": created}))


async def test_a_follower_does_not_multiply_the_retries_of_its_hop() -> None:
    """The first reading sends an event, the second waits for the store, and the rest find the outage too old."""
    server, manual = Faulty(STORE_API, StoreUnavailable("A machine is gone.", away=True)), ManualPacing()
    fails = server.handlers["ReadEvents"]

    async def read(request: Any, call: Call) -> AsyncGenerator[Any, None]:
        if not server.calls["ReadEvents"]:
            begun = progress(0)
            yield OPERATIONS["ReadEvents"].answer.put(EventBatch(0, begun.count, begun.frames))
        async for message in fails(request, call):  # type: ignore[union-attr]
            yield message

    server.handlers["ReadEvents"] = read
    retry = RetryPolicy(attempts_max=4, first_s=0.001)
    async with server.serving() as endpoint, StoreClient(endpoint) as client:
        follower = LogFollower(retrying(client, restart_wait_s=WAIT_S, pacing=manual.pacing))
        following = follower.follow("t", RESPONSE_ID, never, silence_s=WAIT_MAX_S, retry=retry)
        assert (await anext(following)).first_sequence == 0
        with pytest.raises(StoreUnavailable):
            await anext(following)
    assert server.calls == {"ReadEvents": 1 + attempts_in(CALL, WAIT_S) + 2}


async def never() -> bool:
    raise AssertionError("the log was silent")


Ask = Callable[[TranslatorClient], Any]
ASKS: dict[str, Ask] = {
    "CheckTurn": lambda client: client.check(turn("Hi")),
    "ExplainCache": lambda client: client.explain_cache(EndedTurn(turn("Hi")), None),
    "CountTokens": lambda client: client.count_tokens(turn("Hi")),
    "ListModels": lambda client: client.models(),
    "Generate": lambda client: client.generate(turn("Hi"), print),
}


@pytest.mark.parametrize("name", ASKS)
async def test_every_call_of_a_translator_is_tried_as_often_as_its_policy_says(name: str) -> None:
    policy = GENERATION if name == "Generate" else TRANSLATOR_CALL
    for fault, attempts in (
        (TranslatorUnavailable("A machine is gone.", away=True), attempts_in(policy, WAIT_S)),
        (TranslatorUnavailable("It is stopping."), REPORTED_ATTEMPTS),
        (Timeout("No answer."), 1),
        (EngineUnavailable("The engine is another hop."), 1),
        (EngineTimeout("The engine is another hop."), 1),
    ):
        server, manual = Faulty(TRANSLATOR_API, fault), ManualPacing()
        async with server.serving() as endpoint:
            client = TranslatorClient(endpoint, wait_s=WAIT_S, pacing=manual.pacing)
            with pytest.raises(type(fault)):
                await ASKS[name](client)
            await client.close()
        assert server.calls == {name: attempts}, fault


@pytest.mark.parametrize("begins", [1, 9], ids=["then lost", "each is lost in mid-stream"])
async def test_a_takeover_does_not_multiply_the_retries_of_its_hop(begins: int) -> None:
    """The first `begins` attempts send an event. A further takeover finds the outage too old to wait for its end."""
    fault = TranslatorUnavailable("A machine is gone.", away=True)
    server, manual = Faulty(TRANSLATOR_API, fault), ManualPacing()

    async def generate(request: Any, _call: Call) -> AsyncGenerator[Any, None]:
        server.calls["Generate"] += 1
        if server.calls["Generate"] <= begins:
            resume = wire.resume_value(request.resume)
            yield wire.batch_message(progress(resume.next_sequence if resume else 0))
        raise fault

    server.handlers["Generate"] = generate
    async with server.serving() as endpoint:
        client = TranslatorClient(endpoint, wait_s=WAIT_S, pacing=manual.pacing)
        with pytest.raises(TranslatorUnavailable):
            await Generation(client, turn("Hi"), lambda _batch: None, flow=Flow()).run()
        await client.close()
    takeovers = TAKEOVER.attempts_max - 1
    waiting = attempts_in(GENERATION, WAIT_S)
    assert server.calls == {"Generate": 1 + takeovers if begins > 1 else 1 + waiting + takeovers - 1}


async def test_a_fault_of_an_engine_is_repeated_by_the_translator_alone(tmp_path: Path) -> None:
    """Each endpoint is asked once, whatever stands before the translator."""
    async with AsyncExitStack() as life:
        chats = [await life.enter_async_context(fake_chat()) for _ in range(2)]
        service = TranslatorService(TranslatorSettings(), clock=SystemClock())
        life.push_async_callback(service.close)
        engines = {
            chat.endpoint: OpenAIChatEngine(ModelProfile(name="m", directory=tmp_path, endpoint=chat.endpoint))
            for chat in chats
        }
        service.add(model(), EndpointsEngine(engines, SystemClock()))
        server = RpcServer()
        server.add(TRANSLATOR_API, handlers(service), ready=is_ready)
        life.push_async_callback(server.drain, 0)
        client = TranslatorClient(f"127.0.0.1:{await server.start('127.0.0.1', 0)}")
        life.push_async_callback(client.close)
        await client.check(turn("Hi"))
        for chat in chats:
            chat.refusal = (503, {"error": {"message": "Out of paper."}})
        seen: list[Batch] = []
        await client.generate(turn("Hi"), seen.append)
        assert seen[-1].final is not None
        assert [len(chat.requests) for chat in chats] == [1, 1]


async def test_calls_wait_for_services_that_start_meanwhile() -> None:
    """On the real clock: a restart is not noticed."""
    (port,) = free_ports(1)
    async with AsyncExitStack() as life:
        client = await life.enter_async_context(StoreClient(f"127.0.0.1:{port}"))
        store = retrying(client, restart_wait_s=WAIT_MAX_S)
        translator = TranslatorClient(f"127.0.0.1:{port}", wait_s=WAIT_MAX_S)
        life.push_async_callback(translator.close)
        calls = (store.get("t", RESPONSE_ID), anext(store.read_events("t", RESPONSE_ID)), ASKS["Generate"](translator))
        asking = [asyncio.ensure_future(call) for call in calls]
        _, waiting = await asyncio.wait(asking, timeout=1.0)
        assert len(waiting) == len(asking)
        server = RpcServer()
        for api in (STORE_API, TRANSLATOR_API):
            server.add(api, Faulty(api, ResponseNotFound.of("r")).handlers, ready=is_ready)
        life.push_async_callback(server.drain, 0)
        await server.start("127.0.0.1", port)
        outcomes = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ResponseNotFound] * len(asking)
