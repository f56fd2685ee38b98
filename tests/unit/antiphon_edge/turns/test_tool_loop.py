from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    AntiphonError,
    InvalidRequest,
    StoreUnavailable,
    ToolServerFault,
    ToolsUnavailable,
    Unavailable,
)
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.limits import TOOLS_ITEMS_MAX
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_core.ports.event_logs import EventAppend, Step, StepKind
from antiphon_core.ports.store import TurnRequest
from antiphon_core.ports.tools import Outcome, ToolCall, ToolResult
from antiphon_edge.tools.limits import ToolLimits
from antiphon_edge.turns import tool_loop
from antiphon_store.rows.model import Kind
from antiphon_store.service import StoreService
from antiphon_translator.lineage import turn_lineage
from tests.support.server_tools import server
from tests.support.stores import ReachableRows
from tests.support.tool_turns import OK, READ, WRITE, FakeTools, RoundsEngine, ToolTurns, call

LISTING = [
    "output_item.added",
    "mcp_list_tools.in_progress",
    "mcp_list_tools.completed",
    "output_item.done",
]
CALLED = [
    "output_item.added",
    "mcp_call.in_progress",
    "mcp_call_arguments.delta",
    "mcp_call_arguments.done",
]
ENDED = ["mcp_call.completed", "output_item.done"]
FUNCTION: Object = {"type": "function", "name": "f"}
BUY = call("shop__buy", '{"n":1}')
SEARCH = call("shop__search")


@pytest.fixture
async def rows() -> AsyncIterator[ReachableRows]:
    made = ReachableRows()
    await made.open()
    yield made
    await made.close()


@pytest.fixture
def store(rows: ReachableRows) -> StoreService:
    return StoreService(rows)


def turns(store: StoreService, tools: FakeTools, *rounds: Any) -> ToolTurns:
    return ToolTurns(store, RoundsEngine(*rounds), tools)


def calls_of(response: Object) -> list[Object]:
    return [item for item in response["output"] if item["type"] == "mcp_call"]


async def steps_of(store: StoreService, response_id: str) -> list[Step]:
    return [step async for batch in store.read_events("default", response_id) for step in batch.steps]


async def test_call_runs_between_two_rounds_in_the_golden_order(store: StoreService) -> None:
    tools = FakeTools()
    made = turns(store, tools, BUY, "Bought.")
    response = await made.send()
    assert made.types[:10] == ["created", "in_progress", *LISTING, *CALLED]
    assert made.types[10:13] == [*ENDED, "output_item.added"]
    assert made.types[-1] == "completed"
    assert [event["sequence_number"] for event in made.log] == list(range(len(made.log)))
    assert fold(made.log) == response
    assert [item["type"] for item in response["output"]] == ["mcp_list_tools", "mcp_call", "message"]
    assert calls_of(response)[0]["output"] == "Done."
    assert response["usage"]["total_tokens"] == 26
    (sent,) = tools.calls
    assert (sent.id, sent.tool, sent.arguments, sent.digest) == (
        f"{response['id']}/{calls_of(response)[0]['id']}",
        "buy",
        b'{"n":1}',
        "d2",
    )
    stored = await store.get("default", response["id"])
    assert loads(stored.output_items) == response["output"]


async def test_list_that_the_conversation_has_is_not_repeated(store: StoreService) -> None:
    made = turns(store, FakeTools(), "Hello.")
    first = await made.send()
    again = turns(store, FakeTools(), "Hello.")
    await again.send(previous_response_id=first["id"])
    assert again.types[2:3] == ["output_item.added"]
    assert [item["type"] for item in again.response["output"]] == ["message"]
    changed = turns(store, FakeTools(WRITE), "Hello.")
    await changed.send(previous_response_id=first["id"])
    assert [item["type"] for item in changed.response["output"]] == ["mcp_list_tools", "message"]


@pytest.mark.parametrize(
    ("result", "status", "error_type", "end"),
    [
        (OK, "completed", None, "completed"),
        (ToolResult(Outcome.TOOL_ERROR, "No tea."), "failed", "mcp_tool_execution_error", "failed"),
        (ToolResult(Outcome.HTTP_ERROR), "failed", "http_error", "failed"),
        (ToolResult(Outcome.UNKNOWN), "incomplete", "mcp_protocol_error", "failed"),
        (ToolsUnavailable("Away."), "failed", "mcp_protocol_error", "failed"),
    ],
)
async def test_response_goes_on_after_every_end_of_a_call(
    store: StoreService, result: ToolResult | Exception, status: str, error_type: str | None, end: str
) -> None:
    made = turns(store, FakeTools(answer=result), BUY, "So.")
    (item,) = calls_of(await made.send())
    assert (item["status"], (item["error"] or {}).get("type")) == (status, error_type)
    assert f"mcp_call.{end}" in made.types
    assert made.types[-1] == "completed"


async def test_tool_that_the_server_lacks_is_not_called(store: StoreService) -> None:
    tools = FakeTools(READ)
    (item,) = calls_of(await turns(store, tools, BUY, "So.").send())
    assert (item["status"], tools.calls) == ("failed", [])
    assert "no tool 'buy'" in item["error"]["message"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "nonsense"},
        {"type": "object", "properties": {"a": {"$ref": "https://x.example/s.json"}}},
        {"type": "object", "required": "a"},
    ],
)
async def test_tool_with_an_unusable_schema_costs_the_model_no_other_tool(store: StoreService, schema: Object) -> None:
    tools = FakeTools(replace(READ, name="odd", input_schema=dumps(schema)), WRITE)
    response = await turns(store, tools, BUY, "So.").send()
    assert (response["status"], len(tools.calls)) == ("completed", 1)


async def test_tools_beyond_those_that_a_list_may_have_are_left_out(store: StoreService) -> None:
    tools = FakeTools(*(replace(READ, name=f"tool{number}") for number in range(TOOLS_ITEMS_MAX + 1)))
    response = await turns(store, tools, "So.").send()
    assert response["status"] == "completed"
    assert len(response["output"][0]["tools"]) == TOOLS_ITEMS_MAX


async def test_function_of_the_client_has_its_name_before_a_tool_of_a_server(store: StoreService) -> None:
    tools = FakeTools()
    made = turns(store, tools, BUY)
    response = await made.send(tools=[server(), FUNCTION | {"name": "shop__buy"}])
    assert [item["type"] for item in response["output"]] == ["mcp_list_tools", "function_call"]
    assert (response["status"], tools.calls) == ("completed", [])


async def test_tool_that_the_request_does_not_allow_is_neither_shown_nor_called(store: StoreService) -> None:
    tools = FakeTools()
    response = await turns(store, tools, BUY, "So.").send(tools=[server(allowed_tools=["search"])])
    assert [tool["name"] for tool in response["output"][0]["tools"]] == ["search"]
    assert tools.calls == []


async def test_large_conversation_and_output_are_read_outside_the_event_loop(
    store: StoreService, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[threading.Thread] = []

    def note(work: Callable[[Any], Any], given: Any) -> Any:
        if len(given if isinstance(given, bytes) else dumps(given)) > INLINE_BYTES_MAX:
            read.append(threading.current_thread())
        return work(given)

    monkeypatch.setattr(tool_loop, "loads", partial(note, loads))
    monkeypatch.setattr(tool_loop, "dumps", partial(note, dumps))
    listed = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "other", "tools": []}
    said = {"role": "user", "content": "x" * INLINE_BYTES_MAX}
    answer = ToolResult(Outcome.OK, "x" * INLINE_BYTES_MAX)
    given: Object = {"input": [listed, said], "instructions": "x" * INLINE_BYTES_MAX}
    response = await turns(store, FakeTools(answer=answer), BUY, BUY, "So.").send(**given)
    assert response["status"] == "completed"
    assert len(read) == 4
    assert threading.current_thread() not in read


# ---- Limits ----


async def test_surplus_calls_of_a_round_are_not_sent(store: StoreService) -> None:
    tools = FakeTools()
    made = turns(store, tools, [*BUY, *SEARCH], "So.")
    first, second = calls_of(await made.send(max_tool_calls=1))
    assert (first["status"], second["status"], len(tools.calls)) == ("completed", "incomplete", 1)
    assert "max_tool_calls" in second["error"]["message"]
    assert made.response["status"] == "completed"


@pytest.mark.parametrize(("is_parallel", "most"), [(True, 3), (False, 1)])
async def test_calls_run_at_once_only_if_the_operator_allows_it(
    store: StoreService, is_parallel: bool, most: int
) -> None:
    tools = FakeTools()
    tools.listing = replace(tools.listing, is_parallel=is_parallel)
    running: list[int] = []
    now = 0

    async def count(_call: ToolCall) -> None:
        nonlocal now
        now += 1
        running.append(now)
        for _ in range(10):
            await asyncio.sleep(0)
        now -= 1

    tools.before_call = count
    await turns(store, tools, [*SEARCH, *BUY, *SEARCH], "So.").send()
    assert (max(running), len(tools.calls)) == (most, 3)


@pytest.mark.parametrize("limits", [ToolLimits(rounds=3), ToolLimits(calls=3)])
async def test_model_that_calls_without_end_is_stopped(store: StoreService, limits: ToolLimits) -> None:
    tools = FakeTools()
    made = ToolTurns(store, RoundsEngine(BUY), tools, tool_limits=limits)
    response = await made.send()
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_tool_calls"})
    assert len(tools.calls) == 3
    assert fold(made.log) == response
    assert loads((await store.get("default", response["id"])).output_items) == response["output"]


@pytest.mark.parametrize(
    ("rounds", "limits"), [([BUY, SEARCH, "So."], ToolLimits()), ([BUY, SEARCH, BUY], ToolLimits(rounds=3))]
)
async def test_record_has_the_lineages_of_all_rounds(
    store: StoreService, rounds: list[Any], limits: ToolLimits
) -> None:
    made = ToolTurns(store, RoundsEngine(*rounds), FakeTools(), tool_limits=limits)
    response = await made.send()
    start = await store.begin_turn("default", TurnRequest(response["id"], wants_lineage=True))
    (lineage,) = start.history.lineages
    assert len(turn_lineage.decode_rounds(lineage)) == len(rounds)


async def test_time_for_tools_ends_the_response(store: StoreService) -> None:
    tools = FakeTools()
    made = ToolTurns(store, RoundsEngine(BUY), tools, tool_limits=ToolLimits(time_s=0))
    response = await made.send()
    assert (response["incomplete_details"], tools.calls) == ({"reason": "tool_time"}, [])


async def test_call_may_take_the_time_that_the_response_has_left(store: StoreService) -> None:
    tools, clock = FakeTools(), ManualClock()

    async def take_a_minute(_call: ToolCall) -> None:
        clock.advance(60)

    tools.before_call = take_a_minute
    made = ToolTurns(store, RoundsEngine(BUY, BUY, "So."), tools, clock=clock, tool_limits=ToolLimits(time_s=600))
    await made.send()
    assert [sent.timeout_s for sent in tools.calls] == [600, 540]


async def test_functions_of_the_client_end_the_response_after_the_calls_of_servers(store: StoreService) -> None:
    tools = FakeTools()
    made = turns(store, tools, [*BUY, *call("f")])
    response = await made.send(tools=[server(), FUNCTION])
    assert [(item["type"], item.get("status")) for item in response["output"][1:]] == [
        ("mcp_call", "completed"),
        ("function_call", "completed"),
    ]
    assert (response["status"], len(tools.calls)) == ("completed", 1)


# ---- Requests ----


@pytest.mark.parametrize(
    ("error", "field"),
    [
        (InvalidRequest("Not listed.", field="server_url"), "tools[0].server_url"),
        (ToolsUnavailable("Away."), None),
    ],
)
async def test_server_that_may_not_be_called_fails_the_request(
    store: StoreService, error: AntiphonError, field: str | None
) -> None:
    tools = FakeTools()
    tools.list_error = error
    made = turns(store, tools, "Hi.")
    with pytest.raises(type(error)) as caught:
        await made.send()
    assert (caught.value.field, made.log) == (field, [])


async def test_server_without_an_answer_has_no_tools_and_the_response_goes_on(store: StoreService) -> None:
    tools = FakeTools()
    tools.list_error = ToolServerFault("No answer.")
    made = turns(store, tools, "So.")
    response = await made.send()
    assert "mcp_list_tools.failed" in made.types
    assert (response["output"][0]["error"], response["output"][0]["tools"]) == ("No answer.", [])


# ---- The journal ----


async def test_intent_is_durable_before_the_call_and_the_result_before_its_event(store: StoreService) -> None:
    tools = FakeTools()
    made = turns(store, tools, [*BUY, *SEARCH], "So.")
    found: list[list[Step]] = []

    async def look(sent: ToolCall) -> None:
        found.append(await steps_of(store, sent.id.partition("/")[0]))

    tools.before_call = look
    response = await made.send(key="k")
    assert [[step.kind for step in steps] for steps in found] == [[StepKind.INTENT], [StepKind.INTENT]]
    steps = await steps_of(store, response["id"])
    assert [(step.kind, step.round) for step in steps] == [
        (StepKind.INTENT, 1),
        (StepKind.RESULT, 1),
        (StepKind.RESULT, 1),
    ]
    assert [step.call_id for step in steps[1:]] == [item["id"] for item in calls_of(response)]


async def lose(made: ToolTurns, tools: FakeTools, **members: Any) -> None:
    """Runs a keyed turn on an edge that goes away while its call runs."""
    tools.hangs = True
    running = asyncio.ensure_future(made.send(key="k", **members))
    await tools.called.wait()
    running.cancel()
    await asyncio.wait([running])
    await made.service.settle()
    tools.hangs = False


@pytest.mark.parametrize("kind", StepKind)
async def test_append_that_fails_leaves_no_gap_in_the_events(
    store: StoreService, kind: StepKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = store.append_events

    async def fail_once(tenant: str, given: EventAppend, **options: Any) -> int:
        if any(step.kind is kind for step in given.steps):
            monkeypatch.setattr(store, "append_events", append)
            raise StoreUnavailable("Away.")
        return await append(tenant, given, **options)

    monkeypatch.setattr(store, "append_events", fail_once)
    tools = FakeTools()
    made = turns(store, tools, BUY, "So.")
    response = await made.send()
    assert response["status"] == "failed"
    assert len(tools.calls) == (kind is StepKind.RESULT)
    assert [event["sequence_number"] for event in made.log] == list(range(len(made.log)))
    assert fold(made.log) == response


async def test_call_of_a_lost_edge_is_unknown_and_not_repeated(store: StoreService) -> None:
    tools = FakeTools()
    await lose(turns(store, tools, BUY), tools)
    second = turns(store, tools, "So.")
    response = await second.send(key="k")
    (item,) = calls_of(response)
    assert (len(tools.calls), item["status"], item["error"]["code"]) == (1, "incomplete", -32001)
    assert "not repeated" in item["error"]["message"]
    assert response["status"] == "completed"
    assert fold(second.log) == response
    assert [event["sequence_number"] for event in second.log] == list(range(len(second.log)))


async def test_repeatable_call_of_a_lost_edge_is_made_again(store: StoreService) -> None:
    tools = FakeTools()
    await lose(turns(store, tools, SEARCH), tools)
    (item,) = calls_of(await turns(store, tools, "So.").send(key="k"))
    assert (len(tools.calls), item["status"], item["output"]) == (2, "completed", "Done.")


@pytest.mark.parametrize(("said", "sent", "status"), [(SEARCH, 2, "completed"), (BUY, 1, "incomplete")])
async def test_surplus_calls_are_not_sent_by_the_next_edge_either(
    store: StoreService, said: Any, sent: int, status: str
) -> None:
    tools = FakeTools()
    await lose(turns(store, tools, [*said, *said, *said]), tools, max_tool_calls=1)
    first, *others = calls_of(await turns(store, tools, "So.").send(key="k", max_tool_calls=1))
    assert (first["status"], len(tools.calls)) == (status, sent)
    assert ["max_tool_calls" in item["error"]["message"] for item in others] == [True, True]


async def test_time_for_tools_does_not_begin_anew_on_the_next_edge(store: StoreService) -> None:
    tools, clock = FakeTools(), ManualClock()
    await lose(ToolTurns(store, RoundsEngine(SEARCH), tools, clock=clock), tools)
    clock.advance(ToolLimits().time_s)
    response = await ToolTurns(store, RoundsEngine("So."), tools, clock=clock).send(key="k")
    assert (response["incomplete_details"], len(tools.calls)) == ({"reason": "tool_time"}, 1)
    assert "not repeated" in calls_of(response)[0]["error"]["message"]


async def test_edge_lost_in_the_second_round_leaves_the_call_done_once(store: StoreService) -> None:
    tools = FakeTools()
    engine = RoundsEngine(BUY, "So.")
    engine.waits_at = 1
    first = ToolTurns(store, engine, tools)
    running = asyncio.ensure_future(first.send(key="k"))
    await engine.waiting.wait()
    running.cancel()
    await asyncio.wait([running])
    await first.service.settle()
    second = turns(store, tools, "So.")
    response = await second.send(key="k")
    (item,) = calls_of(response)
    assert (len(tools.calls), item["status"], response["status"]) == (1, "completed", "completed")
    assert response["usage"]["input_tokens"] == 20
    assert fold(second.log) == response


class LeavingClient:
    """A turn whose client leaves while the first of its two calls runs. `tools` answer when `answer` is set."""

    def __init__(self, store: StoreService, *, finish_s: float = 3_600) -> None:
        self._store = store
        self.tools, self.answer = FakeTools(), asyncio.Event()
        self.tools.before_call = self._wait
        self._is_called = asyncio.Event()
        limits = ToolLimits(parallel=1, finish_s=finish_s)
        self._made = ToolTurns(store, RoundsEngine([*BUY, *SEARCH]), self.tools, tool_limits=limits)

    async def _wait(self, _call: ToolCall) -> None:
        self._is_called.set()
        await self.answer.wait()

    async def leave(self) -> asyncio.Task[Object]:
        running = asyncio.ensure_future(self._made.send())
        await self._is_called.wait()
        running.cancel()
        return running

    async def stop(self) -> None:
        """Stops the edge, some turns of the event loop later: the turn waits for its call then."""
        for _ in range(20):
            await asyncio.sleep(0)
        await self._made.service.break_off(Unavailable("The edge is stopped."))

    async def end(self, running: asyncio.Task[Object]) -> tuple[str, list[Object]]:
        """Waits for the turn's end. Returns the status of its record, and its calls."""
        await asyncio.wait([running])
        await self._made.service.settle()
        record = await self._store.get("default", self._made.log[0]["response"]["id"])
        return record.status.value, calls_of({"output": loads(record.output_items)})


async def test_call_is_awaited_after_its_client_has_left_and_no_further_one_is_sent(store: StoreService) -> None:
    client = LeavingClient(store)
    running = await client.leave()
    client.answer.set()
    status, (bought, searched) = await client.end(running)
    assert (status, len(client.tools.calls)) == ("cancelled", 1)
    assert (bought["status"], bought["output"]) == ("completed", "Done.")
    assert (searched["status"], searched["error"]["code"]) == ("incomplete", -32000)
    assert "the client has left" in searched["error"]["message"]


async def test_call_without_an_answer_in_time_after_its_client_has_left_is_unknown(store: StoreService) -> None:
    client = LeavingClient(store, finish_s=0)
    status, (bought, _) = await client.end(await client.leave())
    assert (status, bought["status"], bought["error"]["code"]) == ("cancelled", "incomplete", -32001)


async def test_edge_that_is_stopped_does_not_wait_for_calls_whose_client_has_left(store: StoreService) -> None:
    client = LeavingClient(store)
    running = await client.leave()
    await client.stop()
    status, (bought, _) = await client.end(running)
    assert (status, bought["status"], bought["error"]["code"]) == ("cancelled", "incomplete", -32001)


async def test_credentials_reach_the_server_and_nothing_that_is_stored(
    rows: ReachableRows, store: StoreService
) -> None:
    tools = FakeTools()
    secret = server(authorization="canary-1", headers={"x-key": "canary-2"})
    made = turns(store, tools, BUY, "So.")
    response = await made.send(key="k", tools=[secret])
    assert tools.calls[0].credentials == tools.credentials[0]
    assert tools.credentials[0].authorization == "canary-1"
    assert tools.credentials[0].headers == (("x-key", "canary-2"),)
    written = [row for kind in Kind for row in rows.stored(kind).values()]
    assert "canary" not in repr(written)
    assert "canary" not in repr(made.log)
    again = turns(store, FakeTools(), "other")
    refreshed = server(authorization="canary-3")
    assert (await again.send(key="k", tools=[refreshed]))["id"] == response["id"]
