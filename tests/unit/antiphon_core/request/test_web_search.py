from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.hosted_tools import WEB_SEARCH, HostedTools
from antiphon_core.request.hosted_tools import WEB_SEARCH as HOSTED
from antiphon_core.request.web_search import HITS, WebSearchTool

RUN_HERE = HostedTools(HOSTED)


def create(hosted: HostedTools, **members: Any) -> CreateRequest:
    body = {"model": "m", "input": "Hi"} | members
    return CreateRequest.of(body, work_bytes=len(dumps(body)), hosted=hosted)


@pytest.mark.parametrize("kind", sorted(WEB_SEARCH))
def test_search_is_accepted_where_it_is_run_and_rejected_elsewhere(kind: str) -> None:
    tool = {"type": kind, "search_context_size": "low", "filters": {"allowed_domains": ["a.com"]}}
    made = next(iter(create(RUN_HERE, tools=[tool], tool_choice={"type": kind}).tools or ()))
    assert isinstance(made, WebSearchTool)
    assert (made.hits, made.domains, made.country) == (HITS["low"], ("a.com",), "")
    for path, members in (("tools[0]", {"tools": [tool]}), ("tool_choice", {"tool_choice": {"type": kind}})):
        with pytest.raises(InvalidRequest) as caught:
            create(HostedTools(), **members)
        assert (caught.value.field, caught.value.code) == (path, "unsupported_value")


def test_search_that_is_run_is_not_dropped() -> None:
    tools = [{"type": "web_search"}, {"type": "file_search"}]
    made = create(HostedTools(HOSTED, are_dropped=True), tools=tools)
    assert ([tool.type for tool in made.tools or ()], made.dropped_tools) == (["web_search"], ["file_search"])


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"search_context_size": "huge"}, "search_context_size"),
        ({"user_location": {"country": "Germany"}}, "user_location.country"),
        ({"filters": {"allowed_domains": "a.com"}}, "filters.allowed_domains"),
    ],
)
def test_invalid_member_is_rejected_with_its_path(members: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        create(RUN_HERE, tools=[{"type": "web_search"} | members])
    assert caught.value.field == f"tools[0].{field}"
