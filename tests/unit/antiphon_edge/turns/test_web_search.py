"""Turns that search the web: a model with a script for each round, and a search with fixed results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.errors import ToolServerFault
from antiphon_core.fold import fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.web_search import SearchHit, SearchQuery
from antiphon_edge import replay
from antiphon_edge.turns import web_search
from antiphon_store.service import StoreService
from antiphon_translator.generation import ChatPrompt
from tests.support.server_tools import server
from tests.support.stores import ReachableRows
from tests.support.tool_turns import FakeTools, RoundsEngine, ToolTurns, call

SEARCHED = [
    "output_item.added",
    "web_search_call.in_progress",
    "web_search_call.searching",
    "web_search_call.completed",
    "output_item.done",
]
TOOL: Object = {"type": "web_search"}
SEARCH = call("web_search", '{"query": "tea"}')
HITS = (
    SearchHit("https://example.com/a", "A", "About a.", "2026-01-01"),
    SearchHit("https://example.com/b", "B", "About b."),
)


@pytest.fixture
async def store() -> AsyncIterator[StoreService]:
    rows = ReachableRows()
    await rows.open()
    yield StoreService(rows)
    await rows.close()


def turns(store: StoreService, tools: FakeTools, *rounds: Any) -> ToolTurns:
    return ToolTurns(store, RoundsEngine(*rounds), tools)


async def test_search_runs_between_two_rounds_in_the_golden_order(store: StoreService) -> None:
    tools = FakeTools()
    tools.hits = HITS
    made = turns(store, tools, SEARCH, "Tea is a drink [1], as 【2】 says, but not [3].")
    response = await made.send(tools=[TOOL])
    assert made.types[:7] == ["created", "in_progress", *SEARCHED]
    assert [event["sequence_number"] for event in made.log] == list(range(len(made.log)))
    assert fold(made.log) == response
    assert tools.queries == [SearchQuery("tea", 5)]
    searched, answer = response["output"]
    assert (searched["type"], searched["status"], searched["id"][:3]) == ("web_search_call", "completed", "ws_")
    assert searched["action"] == {
        "type": "search",
        "query": "tea",
        "queries": ["tea"],
        "sources": [{"type": "url", "url": hit.url} for hit in HITS],
    }
    (part,) = answer["content"]
    assert [(each["url"], part["text"][each["start_index"] : each["end_index"]]) for each in part["annotations"]] == [
        ("https://example.com/a", "[1]"),
        ("https://example.com/b", "【2】"),
    ]
    added = [event for event in made.log if event["type"] == "response.output_text.annotation.added"]
    assert [event["annotation"] for event in added] == part["annotations"]
    stored = await store.get("default", response["id"])
    assert loads(stored.output_items) == response["output"]


async def test_model_reads_the_results_also_in_later_turns(store: StoreService) -> None:
    tools = FakeTools()
    tools.hits = HITS
    made = turns(store, tools, SEARCH, "Tea is a drink.")
    first = await made.send(tools=[TOOL])
    later = ToolTurns(store, engine := RoundsEngine("Yes."), tools)
    await later.send(tools=[TOOL], previous_response_id=first["id"])
    prompt = engine.requests[-1].prompt_as(ChatPrompt)
    (shown,) = [message["content"] for message in prompt.messages if message["role"] == "tool"]
    assert shown == "[1] A (2026-01-01)\nhttps://example.com/a\nAbout a.\n\n[2] B\nhttps://example.com/b\nAbout b."
    (function,) = prompt.tools
    assert function["function"]["name"] == "web_search"


async def test_results_of_several_searches_have_numbers_of_their_own(store: StoreService) -> None:
    tools = FakeTools()
    tools.hits = HITS
    made = turns(store, tools, [*SEARCH, *SEARCH], "See [4].")
    response = await made.send(tools=[TOOL])
    numbers = [result["number"] for item in response["output"][:2] for result in item["results"]]
    assert numbers == [1, 2, 3, 4]
    assert len(response["output"][2]["content"][0]["annotations"]) == 1


@pytest.mark.parametrize("is_resent", [False, True])
async def test_numbers_of_results_go_on_behind_those_of_the_conversation(store: StoreService, is_resent: bool) -> None:
    tools = FakeTools()
    tools.hits = HITS
    first = await turns(store, tools, SEARCH, "Tea is a drink [1].").send(tools=[TOOL])
    again: Object = {"previous_response_id": first["id"]}
    if is_resent:
        again = {"input": [{"role": "user", "content": "Hi"}, *first["output"], {"role": "user", "content": "More."}]}
    searched, answer = (await turns(store, tools, SEARCH, "See [3].").send(tools=[TOOL], **again))["output"]
    assert [result["number"] for result in searched["results"]] == [3, 4]
    assert [each["url"] for each in answer["content"][0]["annotations"]] == ["https://example.com/a"]


@pytest.mark.parametrize(
    ("declared", "query"),
    [
        ({"search_context_size": "high"}, SearchQuery("tea", 10)),
        ({"search_context_size": "low", "filters": {"allowed_domains": ["a.com"]}}, SearchQuery("tea", 3, ("a.com",))),
        ({"user_location": {"type": "approximate", "country": "DE"}}, SearchQuery("tea", 5, (), "DE")),
    ],
)
async def test_declaration_decides_what_is_searched(store: StoreService, declared: Object, query: SearchQuery) -> None:
    tools = FakeTools()
    await turns(store, tools, SEARCH, "Done.").send(tools=[TOOL | declared])
    assert tools.queries == [query]


async def test_search_that_fails_is_told_to_the_model_and_the_response_goes_on(store: StoreService) -> None:
    tools = FakeTools()
    tools.hits = ToolServerFault("The search provider cannot be reached from here.")
    made = ToolTurns(store, engine := RoundsEngine(SEARCH, "I cannot search now."), tools)
    response = await made.send(tools=[TOOL])
    assert [item.get("status") for item in response["output"]] == ["failed", "completed"]
    assert "web_search_call.completed" not in made.types
    messages = engine.requests[-1].prompt_as(ChatPrompt).messages
    assert "cannot be reached" in next(each["content"] for each in messages if each["role"] == "tool")


async def test_search_without_a_query_searches_nothing(store: StoreService) -> None:
    tools = FakeTools()
    response = await turns(store, tools, call("web_search", "[1"), "Sorry.").send(tools=[TOOL])
    assert (response["output"][0]["status"], tools.queries) == ("failed", [])


async def test_choice_of_the_search_forces_it_in_the_first_round(store: StoreService) -> None:
    made = ToolTurns(store, engine := RoundsEngine(SEARCH, "Done."), FakeTools())
    await made.send(tools=[TOOL], tool_choice={"type": "web_search"})
    first, second = (request.prompt_as(ChatPrompt).tool_choice for request in engine.requests)
    assert first is not None
    assert first != "auto"
    assert second in (None, "auto")


async def test_replay_of_a_search_and_its_citations_equals_the_stream(store: StoreService) -> None:
    made = turns(store, FakeTools(), SEARCH, "See [1].")
    response = await made.send(tools=[TOOL])
    stored = await store.get("default", response["id"])
    told = [event["type"] for event in made.log]
    again = [event["type"] for event in events.decode(b"".join(replay.frames_of(stored)))]
    assert again == told


async def test_long_query_is_cut_to_what_providers_take(store: StoreService) -> None:
    tools = FakeTools()
    await turns(store, tools, call("web_search", '{"query": "' + "t\u00eba " * 1_000 + '"}'), "Done.").send(
        tools=[TOOL]
    )
    (query,) = tools.queries
    assert 1_990 < len(query.text.encode()) <= web_search.QUERY_BYTES_MAX


async def test_searches_count_for_the_limit_of_calls(store: StoreService) -> None:
    tools = FakeTools()
    response = await turns(store, tools, [*SEARCH, *SEARCH], "Done.").send(tools=[TOOL], max_tool_calls=1)
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete", "completed"]
    assert len(tools.queries) == 1


async def test_search_of_a_lost_edge_is_run_again(store: StoreService) -> None:
    tools = FakeTools()
    first = turns(store, tools, SEARCH)
    tools.hangs = True
    running = asyncio.ensure_future(first.send(key="k", tools=[TOOL]))
    await tools.called.wait()
    running.cancel()
    await asyncio.wait([running])
    await first.service.settle()
    tools.hangs = False
    second = turns(store, tools, "See [1].")
    response = await second.send(key="k", tools=[TOOL])
    searched, answer = response["output"]
    assert (searched["status"], [result["number"] for result in searched["results"]]) == ("completed", [1])
    assert len(answer["content"][0]["annotations"]) == 1
    assert len(tools.queries) == 2
    assert fold(second.log) == response


async def test_search_and_a_call_of_a_server_run_in_one_round(store: StoreService) -> None:
    tools = FakeTools()
    made = ToolTurns(store, engine := RoundsEngine([*call("shop__buy"), *SEARCH], "Bought [1]."), tools)
    response = await made.send(tools=[server(), TOOL])
    assert [item["type"] for item in response["output"]] == ["mcp_list_tools", "mcp_call", "web_search_call", "message"]
    assert response["output"][2]["parallel_with"] == response["output"][1]["id"]
    roles = [message["role"] for message in engine.requests[-1].prompt_as(ChatPrompt).messages]
    assert roles == ["user", "assistant", "tool", "tool"]
