"""Approvals of calls: a response that asks ends, and the turn with the answer runs the call, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    AntiphonError,
    ApprovalAlreadyUsed,
    ApprovalNotFound,
    InvalidRequest,
    StoreUnavailable,
    ToolServerFault,
    ToolsUnavailable,
)
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, loads
from antiphon_core.limits import APPROVALS_ITEMS_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.tools import Approval, Tool
from antiphon_core.ports.translator import Turn
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.hosted_tools import HostedTools
from antiphon_edge.background.background_policy import Postponed
from antiphon_edge.tools import approvals
from antiphon_edge.tools.limits import ToolLimits
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.caller_policy import CallerPolicy
from antiphon_edge.turns.durable_turns import TurnJobs
from antiphon_edge.turns.turn_runner import TurnRun
from antiphon_edge.turns.turn_timing import JOB_LEASE_MS
from antiphon_store.decisions.approvals import TAKEN_MS
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_translator.service import TranslatorService
from tests.support.background import TENANT, Bench, bench
from tests.support.server_tools import server
from tests.support.stores import ReachableRows
from tests.support.tool_turns import READ, WRITE, FakeTools, RoundsEngine, ToolTurns, call
from tests.support.turn_services import turn_parts

BUY = call("shop__buy", '{"n":1}')
SEARCH = call("shop__search")
LOG_TTL_S = 300
ASKING: list[Object] = [server(require_approval={"never": {"tool_names": ["search"]}})]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[StoreService]:
    made = ReachableRows(clock)
    await made.open()
    yield StoreService(made)
    await made.close()


@pytest.fixture
def tools() -> FakeTools:
    return FakeTools()


def turns(store: StoreService, tools: FakeTools, *rounds: Any) -> ToolTurns:
    return ToolTurns(store, RoundsEngine(*rounds), tools)


def of_type(response: Object, kind: str) -> list[Object]:
    return [item for item in response["output"] if item["type"] == f"mcp_{kind}"]


async def ask(store: StoreService, tools: FakeTools, said: Any = BUY, /, **members: Any) -> tuple[Object, list[str]]:
    """Runs a turn that ends with requests. Returns its response, and their ids."""
    response = await turns(store, tools, said).send(**{"tools": ASKING, **members})
    return response, [item["id"] for item in of_type(response, "approval_request")]


def answer(*ids: str, approve: bool = True, **members: object) -> list[Object]:
    return [
        {"type": "mcp_approval_response", "approval_request_id": each, "approve": approve, **members} for each in ids
    ]


async def reply(
    store: StoreService,
    tools: FakeTools,
    asked: Object,
    given: Any,
    /,
    *,
    clock: ManualClock | None = None,
    **members: Any,
) -> Object:
    made = ToolTurns(store, RoundsEngine("So."), tools, clock=clock)
    members = {"tools": ASKING, "previous_response_id": asked["id"], **members}
    return await made.send(input=given, **members)


async def open_ids(store: StoreService) -> list[str]:
    return [each.id for each in (await store.list_approvals("default")).approvals]


async def test_response_ends_with_the_request_and_the_call_is_not_sent(store: StoreService, tools: FakeTools) -> None:
    made = turns(store, tools, BUY)
    response = await made.send(tools=ASKING)
    assert made.types[-3:] == ["output_item.added", "output_item.done", "completed"]
    (request,) = of_type(response, "approval_request")
    assert (request["name"], request["arguments"], response["status"]) == ("buy", '{"n":1}', "completed")
    assert tools.calls == []
    (stored,) = (await store.list_approvals("default")).approvals
    assert (stored.id, stored.response_id) == (request["id"], response["id"])
    assert loads(stored.content) == {
        "server_label": "shop",
        "identity": "shop",
        "name": "buy",
        "digest": "d2",
        "arguments": '{"n":1}',
    }


async def test_approved_call_runs_before_the_model_in_the_golden_order(store: StoreService, tools: FakeTools) -> None:
    asked, ids = await ask(store, tools)
    made = turns(store, tools, "Bought.")
    response = await made.send(input=answer(*ids), tools=ASKING, previous_response_id=asked["id"])
    assert made.types[:8] == [
        "created",
        "in_progress",
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ]
    assert [event["sequence_number"] for event in made.log] == list(range(len(made.log)))
    assert fold(made.log) == response
    (item,) = of_type(response, "call")
    assert (item["approval_request_id"], item["status"], item["output"]) == (ids[0], "completed", "Done.")
    (sent,) = tools.calls
    assert (sent.tool, sent.arguments, sent.digest) == ("buy", b'{"n":1}', "d2")
    assert await open_ids(store) == []


async def test_calls_of_one_round_that_need_no_approval_run_before_the_response_ends(
    store: StoreService, tools: FakeTools
) -> None:
    asked, ids = await ask(store, tools, [*BUY, *SEARCH, *call("shop__buy", '{"n":2}')])
    assert ([each.tool for each in tools.calls], len(ids)) == (["search"], 2)
    assert of_type(asked, "call")[0]["output"] == "Done."
    response = await reply(store, tools, asked, answer(*ids))
    assert sorted(each.arguments for each in tools.calls[1:]) == [b'{"n":1}', b'{"n":2}']
    assert response["status"] == "completed"


async def test_function_of_the_client_ends_the_response_beside_a_request(store: StoreService, tools: FakeTools) -> None:
    declared: list[Object] = [*ASKING, {"type": "function", "name": "f"}]
    asked, ids = await ask(store, tools, [*BUY, *call("f")], tools=declared)
    assert [item["type"] for item in asked["output"][1:]] == ["mcp_approval_request", "function_call"]
    done = {"type": "function_call_output", "call_id": asked["output"][2]["call_id"], "output": "ok"}
    await reply(store, tools, asked, [done, *answer(*ids)], tools=declared)
    assert len(tools.calls) == 1


async def test_denied_call_is_not_sent_and_the_model_reads_the_reason(store: StoreService, tools: FakeTools) -> None:
    asked, ids = await ask(store, tools)
    engine = RoundsEngine("I see.")
    made = ToolTurns(store, engine, tools)
    denied = answer(*ids, approve=False, reason="Too dear.")
    response = await made.send(input=denied, tools=ASKING, previous_response_id=asked["id"])
    assert (tools.calls, of_type(response, "call")) == ([], [])
    messages = engine.requests[0].prompt.messages  # type: ignore[union-attr]
    assert "Too dear." in messages[-1]["content"]
    with pytest.raises(ApprovalAlreadyUsed):
        await reply(store, tools, asked, answer(*ids))


async def test_second_answer_names_the_response_that_used_the_first(store: StoreService, tools: FakeTools) -> None:
    asked, ids = await ask(store, tools)
    used = await reply(store, tools, asked, answer(*ids))
    with pytest.raises(ApprovalAlreadyUsed) as caught:
        await reply(store, tools, asked, answer(*ids))
    assert caught.value.facts["used_by"] == used["id"]
    assert len(tools.calls) == 1


async def test_repeated_key_gets_the_response_that_used_the_approval(store: StoreService, tools: FakeTools) -> None:
    asked, ids = await ask(store, tools)
    body: Object = {"input": answer(*ids), "tools": ASKING, "previous_response_id": asked["id"]}
    first, second = [await turns(store, tools, "So.").send(key="k", **body) for _ in range(2)]
    assert (first["id"], len(tools.calls)) == (second["id"], 1)


async def test_second_approval_in_a_chain_and_a_late_answer_are_used(store: StoreService, tools: FakeTools) -> None:
    asked, first = await ask(store, tools, [*BUY, *call("shop__buy", '{"n":2}')])
    again = await turns(store, tools, BUY).send(input=answer(first[0]), tools=ASKING, previous_response_id=asked["id"])
    (second,) = [item["id"] for item in of_type(again, "approval_request")]
    late = await reply(store, tools, again, answer(second, first[1]))
    assert [item["approval_request_id"] for item in of_type(late, "call")] == [second, first[1]]
    assert len(tools.calls) == 3


async def test_client_that_sends_everything_again_can_answer_and_go_on(store: StoreService, tools: FakeTools) -> None:
    asked, ids = await ask(store, tools)
    history: list[Object] = [{"role": "user", "content": "Hi"}, *asked["output"], *answer(*ids)]
    made = turns(store, tools, "Bought.")
    response = await made.send(input=history, tools=ASKING)
    assert (len(tools.calls), len(of_type(response, "call"))) == (1, 1)
    again = turns(store, tools, "And?")
    await again.send(input=[*history, *response["output"], {"role": "user", "content": "Next"}], tools=ASKING)
    assert (len(tools.calls), await open_ids(store)) == (1, [])
    forged = [item | {"arguments": '{"n":9}'} if item.get("id") == ids[0] else item for item in history]
    other, new = await ask(store, tools)
    forged = [item | {"id": new[0]} if item.get("id") == ids[0] else item for item in forged[:-1]] + answer(*new)
    with pytest.raises(InvalidRequest):
        await turns(store, tools, "So.").send(input=forged, tools=ASKING)
    assert other["id"] != asked["id"]


async def test_approval_of_another_branch_or_of_nobody_is_rejected(store: StoreService, tools: FakeTools) -> None:
    root = await turns(store, tools, "Hello.").send(tools=ASKING)
    asked, ids = await ask(store, tools, previous_response_id=root["id"])
    branch = await turns(store, tools, "Hm.").send(tools=ASKING, previous_response_id=root["id"])
    with pytest.raises(InvalidRequest):
        await reply(store, tools, branch, answer(*ids))
    with pytest.raises(ApprovalNotFound):
        await reply(store, tools, asked, answer(ids[0][:-4] + "0000"))
    assert await open_ids(store) == ids


async def test_tool_that_has_changed_is_asked_for_again_and_the_others_run(
    store: StoreService, tools: FakeTools
) -> None:
    asked, ids = await ask(store, tools)
    tools.listing = replace(tools.listing, tools=(READ, replace(WRITE, description="Buys more.", digest="d3")))
    made = turns(store, tools, "So.")
    again = await made.send(input=answer(*ids), tools=ASKING, previous_response_id=asked["id"])
    assert made.types[-3:] == ["output_item.added", "output_item.done", "completed"]
    assert tools.calls == []
    (request,) = of_type(again, "approval_request")
    await reply(store, tools, again, answer(request["id"]))
    assert [(each.tool, each.digest, each.arguments) for each in tools.calls] == [("buy", "d3", b'{"n":1}')]


async def test_approval_is_for_the_server_and_not_for_its_label(store: StoreService, tools: FakeTools) -> None:
    asked, ids = await ask(store, tools)
    tools.listing = replace(tools.listing, identity="another server")
    with pytest.raises(InvalidRequest) as caught:
        await reply(store, tools, asked, answer(*ids))
    assert caught.value.field == "tools"
    tools.listing = replace(tools.listing, identity="shop")
    other = [server("store", require_approval="never")]
    response = await reply(store, tools, asked, answer(*ids), tools=other)
    assert (len(tools.calls), of_type(response, "call")[0]["server_label"]) == (1, "store")


async def test_call_that_an_older_translator_did_not_ask_for_is_not_run(
    store: StoreService, tools: FakeTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate = TranslatorService.generate

    async def generate_without_approvals(self: TranslatorService, turn: Turn, *args: Any, **options: Any) -> None:
        await generate(self, replace(turn, approval_tools=()), *args, **options)

    monkeypatch.setattr(TranslatorService, "generate", generate_without_approvals)
    response = await turns(store, tools, [*BUY, *SEARCH], "So.").send(tools=ASKING)
    bought, found = of_type(response, "call")
    assert (bought["status"], found["status"], [each.tool for each in tools.calls]) == (
        "incomplete",
        "completed",
        ["search"],
    )
    assert "needs an approval" in bought["error"]["message"]


@pytest.mark.parametrize(
    ("operators", "declared", "can_be_unstored"),
    [
        (Approval.CLIENT, server(require_approval=None), False),
        (Approval.CLIENT, ASKING[0], False),
        (Approval.ALWAYS, server(), False),
        (Approval.CLIENT, server(), True),
        (Approval.NEVER, server(require_approval=None), True),
        (Approval.CLIENT, server(require_approval={"never": {"tool_names": ["search", "buy"]}}), True),
    ],
)
async def test_response_that_would_ask_must_be_stored_and_no_other(
    store: StoreService, tools: FakeTools, operators: Approval, declared: Object, can_be_unstored: bool
) -> None:
    tools.listing = replace(tools.listing, approval=operators)
    sending = turns(store, tools, "So.").send(tools=[declared], store=False)
    if can_be_unstored:
        assert (await sending)["status"] == "completed"
        return
    with pytest.raises(InvalidRequest) as caught:
        await sending
    assert caught.value.field == "tools[0].require_approval"
    assert ("'never'" in caught.value.message) == (operators is not Approval.ALWAYS)


async def test_response_ends_with_as_many_requests_as_it_can_ask(store: StoreService, tools: FakeTools) -> None:
    many = [each for number in range(APPROVALS_ITEMS_MAX + 2) for each in call("shop__buy", f'{{"n":{number}}}')]
    asked, ids = await ask(store, tools, many)
    assert (asked["status"], asked["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert len(ids) == APPROVALS_ITEMS_MAX
    await reply(store, tools, asked, answer(ids[-1]))
    assert len(tools.calls) == 1


async def test_too_many_answers_are_named_by_the_member_of_the_request(store: StoreService, tools: FakeTools) -> None:
    asked, ids = await ask(store, tools)
    many = [f"{ids[0][:-8]}{number:08x}" for number in range(APPROVALS_ITEMS_MAX + 1)]
    with pytest.raises(InvalidRequest) as caught:
        await reply(store, tools, asked, answer(*many))
    assert caught.value.field == "input"


# ---- What is given back ----


async def test_answer_that_came_to_no_call_can_be_given_again(store: StoreService, tools: FakeTools) -> None:
    asked, ids = await ask(store, tools)
    tools.list_error = ToolsUnavailable("No service.")
    with pytest.raises(ToolsUnavailable):
        await reply(store, tools, asked, answer(*ids))
    tools.list_error = None
    await reply(store, tools, asked, answer(*ids))
    assert len(tools.calls) == 1


async def test_approvals_are_given_back_before_the_job_of_the_turn_ends(
    store: StoreService, tools: FakeTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ids = await ask(store, tools)
    tools.list_error = ToolsUnavailable("No service.")
    drop, open_at_the_end = TurnJobs.drop, list[list[str]]()

    async def look(jobs: TurnJobs, accepted: AcceptedTurn) -> bool:
        open_at_the_end.append(await open_ids(store))
        return await drop(jobs, accepted)

    monkeypatch.setattr(TurnJobs, "drop", look)
    with pytest.raises(ToolsUnavailable):
        await reply(store, tools, asked, answer(*ids))
    assert open_at_the_end == [ids]


async def test_answer_of_a_failed_engine_stays_used_once_the_call_was_sent(
    store: StoreService, tools: FakeTools
) -> None:
    asked, ids = await ask(store, tools)
    engine = RoundsEngine("So.")
    engine.waits_at = 0
    made = ToolTurns(store, engine, tools)
    body: Object = {"tools": ASKING, "previous_response_id": asked["id"]}
    running = asyncio.ensure_future(made.send(input=answer(*ids), **body))
    await engine.waiting.wait()
    running.cancel()
    await asyncio.wait([running])
    await made.service.settle()
    assert len(tools.calls) == 1
    with pytest.raises(ApprovalAlreadyUsed):
        await reply(store, tools, asked, answer(*ids))


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"tools": []}, "tools"),
        ({"tools": [{"type": "function", "name": "f"}]}, "tools"),
        ({"prompt_cache_options": {"prewarm": True}}, "prompt_cache_options.prewarm"),
    ],
)
async def test_approval_stays_open_if_its_call_cannot_run_in_the_response(
    store: StoreService, tools: FakeTools, members: Object, field: str
) -> None:
    asked, ids = await ask(store, tools)
    with pytest.raises(InvalidRequest) as caught:
        await reply(store, tools, asked, answer(*ids), **members)
    assert (caught.value.field, await open_ids(store)) == (field, ids)
    await reply(store, tools, asked, answer(*ids, approve=False), tools=[])
    assert (tools.calls, await open_ids(store)) == ([], [])


async def test_approved_call_of_a_turn_without_tools_fails_it_and_stays_open(
    store: StoreService, tools: FakeTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edge of an older release has accepted the turn."""
    asked, ids = await ask(store, tools)
    monkeypatch.setattr(approvals, "require_callable", lambda *_: None)
    with pytest.raises(InvalidRequest) as caught:
        await reply(store, tools, asked, answer(*ids), tools=[])
    assert (caught.value.field, await open_ids(store)) == ("tools", ids)


@pytest.mark.parametrize(
    ("members", "list_error", "error", "field"),
    [
        ({}, ToolServerFault("No answer."), ToolServerFault, "tools"),
        ({"tools": [server(allowed_tools=["search"])]}, None, InvalidRequest, "tools[0]"),
        ({"max_tool_calls": 1}, None, InvalidRequest, "max_tool_calls"),
    ],
)
async def test_approvals_stay_open_if_not_all_of_their_calls_can_be_sent(
    store: StoreService,
    tools: FakeTools,
    members: Object,
    list_error: AntiphonError | None,
    error: type[AntiphonError],
    field: str,
) -> None:
    asked, ids = await ask(store, tools, [*BUY, *BUY])
    tools.list_error = list_error
    with pytest.raises(error) as caught:
        await reply(store, tools, asked, answer(*ids), **members)
    assert (caught.value.field, tools.calls, sorted(await open_ids(store))) == (field, [], sorted(ids))
    tools.list_error = None
    await reply(store, tools, asked, answer(*ids))
    assert len(tools.calls) == 2


@pytest.mark.parametrize(("point", "is_free"), [("list", True), ("intent", True), ("call", False)])
async def test_approval_of_a_dead_edge_is_free_again_only_before_the_intent(
    store: StoreService, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, point: str, is_free: bool
) -> None:
    tools = FakeTools()
    asked, ids = await ask(store, tools)
    dying = ToolTurns(store, RoundsEngine("So."), tools, clock=clock, tool_limits=ToolLimits(finish_s=0))
    await die_at(point, dying, monkeypatch, tools, input=answer(*ids), previous_response_id=asked["id"])
    with pytest.raises(ApprovalAlreadyUsed):  # its lease is still live
        await reply(store, tools, asked, answer(*ids))
    clock.advance(JOB_LEASE_MS / 1000)
    if is_free:
        await reply(store, tools, asked, answer(*ids), clock=clock)
    else:
        with pytest.raises(ApprovalAlreadyUsed):
            await reply(store, tools, asked, answer(*ids), clock=clock)
    assert len(tools.calls) == 1


async def die_at(
    point: str, made: ToolTurns, monkeypatch: pytest.MonkeyPatch, tools: FakeTools, **members: Any
) -> None:
    """Runs a turn on an edge that dies while it reads the list of tools, before its intent, or while its call runs."""
    reached = tools.called if point == "call" else asyncio.Event()
    tools.hangs = point == "call"

    async def hang(*_args: Any, **_options: Any) -> Any:
        reached.set()
        await asyncio.Event().wait()

    async def write_nothing(*_: Any) -> None: ...

    with monkeypatch.context() as death:
        death.setattr(CallerPolicy, "leave", write_nothing)
        if point != "call":
            owner, name = (tools, "list_tools") if point == "list" else (TurnRun, "record")
            death.setattr(owner, name, hang)
        running = asyncio.ensure_future(made.send(tools=ASKING, **members))
        await reached.wait()
        running.cancel()
        await asyncio.wait([running])
        await made.service.settle()
    tools.hangs = False


async def test_turn_that_nobody_holds_in_time_loses_its_approval_to_the_next(
    store: StoreService, tools: FakeTools, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ids = await ask(store, tools)
    enqueue, is_slow = StoreService.enqueue_job, True

    async def be_slow(*args: Any, **options: Any) -> Any:
        nonlocal is_slow
        if is_slow:
            is_slow = False
            clock.advance(TAKEN_MS / 1000)
            await reply(store, tools, asked, answer(*ids), clock=clock)
        return await enqueue(*args, **options)

    monkeypatch.setattr(StoreService, "enqueue_job", be_slow)
    with pytest.raises(ApprovalAlreadyUsed):
        await reply(store, tools, asked, answer(*ids), clock=clock)
    assert len(tools.calls) == 1


@pytest.mark.parametrize("point", ["list", "intent", "call"])
async def test_keyed_turn_with_an_answer_is_continued_by_the_next_edge(
    store: StoreService, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    tools = FakeTools()
    asked, ids = await ask(store, tools)
    body: Object = {"input": answer(*ids), "previous_response_id": asked["id"]}
    dying = ToolTurns(store, RoundsEngine("So."), tools, clock=clock, tool_limits=ToolLimits(finish_s=0))
    await die_at(point, dying, monkeypatch, tools, key="k", **body)
    clock.advance(JOB_LEASE_MS / 1000)
    second = ToolTurns(store, RoundsEngine("So."), tools, clock=clock)
    response = await second.send(key="k", tools=ASKING, **body)
    (item,) = of_type(response, "call")
    status = "incomplete" if point == "call" else "completed"
    assert (len(tools.calls), item["status"], item["approval_request_id"]) == (1, status, ids[0])
    assert fold(second.log) == response
    assert await open_ids(store) == []


@pytest.mark.parametrize(
    ("key", "tools_now", "list_error"),
    [
        (None, [READ, WRITE], None),
        ("k", [READ, replace(WRITE, digest="d3")], None),  # it is not asked for again
        ("k", [READ], None),
        ("k", [], ToolServerFault("No answer.")),
    ],
)
async def test_approved_call_is_not_sent_again_when_its_event_log_has_expired(
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    key: str | None,
    tools_now: list[Tool],
    list_error: AntiphonError | None,
) -> None:
    rows, tools = ReachableRows(clock), FakeTools()
    await rows.open()
    store = StoreService(rows, StoreSettings(event_log_ttl_s=LOG_TTL_S))
    asked, ids = await ask(store, tools)
    body: Object = {"input": answer(*ids), "previous_response_id": asked["id"]}
    dying = ToolTurns(store, RoundsEngine("So."), tools, clock=clock, tool_limits=ToolLimits(finish_s=0))
    await die_at("call", dying, monkeypatch, tools, key=key, **body)
    tools.listing, tools.list_error = replace(tools.listing, tools=tuple(tools_now)), list_error
    clock.advance(LOG_TTL_S + 1)
    if key is None:
        with pytest.raises(ApprovalAlreadyUsed):
            await reply(store, tools, asked, answer(*ids), clock=clock)
    else:
        response = await ToolTurns(store, RoundsEngine("So."), tools, clock=clock).send(key=key, tools=ASKING, **body)
        assert [item["status"] for item in of_type(response, "call")] == ["incomplete"]
        assert of_type(response, "approval_request") == []
    assert len(tools.calls) == 1
    await rows.close()


# ---- Background responses ----


@pytest.fixture
async def system(tools: FakeTools) -> AsyncIterator[Bench]:
    async with bench() as made:
        made.parts = lambda store: turn_parts(  # type: ignore[method-assign]
            store, made.translator, clock=made.clock, sealer=made.sealer, timing=made.timing, tools=tools
        )
        made.edge = made.replica()
        yield made


async def queue_answer(system: Bench, tools: FakeTools) -> tuple[str, list[str]]:
    """Queues a response that answers a request for an approval. Returns its id, and those of the approvals."""
    asked, ids = await ask(cast(Any, system.store), tools)
    members = {"model": "m", "background": True, "tools": ASKING, "previous_response_id": asked["id"]}
    request = CreateRequest.of(
        {**members, "input": answer(*ids)}, work_bytes=500, hosted=HostedTools(frozenset({"mcp"}))
    )
    return (await system.edge.create(TENANT, request)).id, ids


async def queue_free_call(system: Bench, _tools: FakeTools) -> tuple[str, list[str]]:
    """Queues a response whose model makes a call that needs no approval. Returns its id."""
    members: Object = {"model": "calls", "background": True, "input": "Buy one.", "tools": [server()]}
    request = CreateRequest.of(members, work_bytes=500, hosted=HostedTools(frozenset({"mcp"})))
    system.serve("calls", cast(Any, RoundsEngine(BUY, "So.")))
    return (await system.edge.create(TENANT, request)).id, []


@pytest.mark.parametrize("queue", [queue_answer, queue_free_call])
async def test_call_of_a_dead_worker_is_not_sent_again_when_the_log_has_expired(
    system: Bench, tools: FakeTools, queue: Callable[[Bench, FakeTools], Awaitable[tuple[str, list[str]]]]
) -> None:
    response_id, _ids = await queue(system, tools)
    tools.hangs = True
    dying = asyncio.create_task(system.run_of(await system.claimed()).go())
    await tools.called.wait()
    dying.cancel()
    await asyncio.wait([dying])
    tools.hangs = False
    system.clock.advance(StoreSettings().event_log_ttl_s + 1)
    await system.run_of(await system.claimed(holder="next")).go()
    record = await system.store.get(TENANT, response_id)
    assert record.status is Status.FAILED
    assert "unknown which calls of tools were sent" in loads(record.body)["error"]["message"]
    assert len(tools.calls) == 1


async def test_queued_response_has_its_approval_however_long_it_waits(
    system: Bench, tools: FakeTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_args: Any, **_options: Any) -> Any:
        raise StoreUnavailable("No store.")

    with monkeypatch.context() as edge:
        edge.setattr(StoreService, "hold_approvals", fail)
        await queue_answer(system, tools)
    system.clock.advance(TAKEN_MS / 1000 + 1)
    assert await open_ids(StoreService(system.backend)) == []


async def test_response_whose_approval_another_one_has_fails_and_says_so(system: Bench, tools: FakeTools) -> None:
    response_id, ids = await queue_answer(system, tools)
    await system.store.return_approvals(TENANT, ids, response_id)
    await system.run_of(await system.claimed()).go()
    record = await system.store.get(TENANT, response_id)
    assert (record.status, "approval" in loads(record.body)["error"]["message"]) == ("failed", True)
    assert tools.calls == []


async def test_response_waits_for_a_server_that_gave_no_list(system: Bench, tools: FakeTools) -> None:
    response_id, _ids = await queue_answer(system, tools)
    tools.list_error = ToolServerFault("No answer.")
    with pytest.raises(Postponed):
        await system.run_of(await system.claimed()).go()
    tools.list_error = None
    system.clock.advance(600)
    await system.run_of(await system.claimed(holder="next")).go()
    assert ((await system.store.get(TENANT, response_id)).status, len(tools.calls)) == (Status.COMPLETED, 1)
