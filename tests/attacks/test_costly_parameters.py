"""Lists and maps that no client needs so long: tens of thousands of stop texts, pairs, tools, parts or unknown members.

A request is rejected by their number. The work that is counted is that of the validation: its findings, each of which
takes 2 to 5 us with the GIL held, and the elements that are looked at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import ValidationError

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps
from antiphon_core.request import models
from antiphon_core.request.errors import from_validation
from antiphon_edge.callers.authentication import TENANT_HEADER
from tests.support.edge import RunningEdge, running_edge

ATTACKER, VICTIM = {TENANT_HEADER: "acme"}, {TENANT_HEADER: "globex"}
MANY = 90_000
CREATE: Object = {"model": "m", "input": "hi"}
CHAT: Object = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PAIRS: Object = {f"x{number}": 0 for number in range(MANY)}
RESPONSES, CHATS, CONVERSATIONS = "/v1/responses", "/v1/chat/completions", "/v1/conversations"
PARAMETERS: dict[str, tuple[str, Object, str | None]] = {
    "unknown members": (RESPONSES, PAIRS | CREATE, None),
    "metadata": (RESPONSES, CREATE | {"metadata": PAIRS}, "metadata"),
    "stop": (RESPONSES, CREATE | {"stop": [0] * MANY}, "stop"),
    "include": (RESPONSES, CREATE | {"include": ["x"] * MANY}, "include"),
    "tools": (RESPONSES, CREATE | {"tools": [{"type": "function"}] * 5_000}, "tools"),
    "reasoning": (RESPONSES, CREATE | {"reasoning": PAIRS}, "reasoning"),
    "parts": (RESPONSES, CREATE | {"input": [{"role": "user", "content": [0] * MANY}]}, "input[0].content"),
    "input of a count": ("/v1/responses/input_tokens", CREATE | {"input": [0] * MANY}, "input"),
    "input of a compaction": ("/v1/responses/compact", CREATE | {"input": [0] * MANY}, "input"),
    "unknown members of a chat": (CHATS, PAIRS | CHAT, None),
    "stop of a chat": (CHATS, CHAT | {"stop": [0] * MANY}, "stop"),
    "functions of a chat": (CHATS, CHAT | {"functions": [0] * MANY}, "functions"),
    "parts of a chat": (CHATS, CHAT | {"messages": [{"role": "user", "content": [0] * MANY}]}, "messages[0].content"),
    "metadata of a conversation": (CONVERSATIONS, {"metadata": PAIRS}, "metadata"),
    "items of a conversation": (CONVERSATIONS, {"items": [0] * MANY}, "items"),
}


@pytest.fixture
async def edge() -> AsyncIterator[RunningEdge]:
    async with running_edge(tenants=True) as running:
        yield running


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of findings of each failed validation."""
    counts: list[int] = []

    def counted(error: ValidationError, **options: Any) -> InvalidRequest:
        counts.append(error.error_count())
        return from_validation(error, **options)

    monkeypatch.setattr(models, "from_validation", counted)
    return counts


@pytest.mark.parametrize("name", PARAMETERS)
async def test_long_list_or_map_is_rejected_by_its_length(edge: RunningEdge, findings: list[int], name: str) -> None:
    path, given, field = PARAMETERS[name]
    refused = await edge.ask("POST", path, dumps(given), headers=ATTACKER | {"Content-Type": "application/json"})
    assert (refused.status, refused.error["param"]) == (400, field)
    assert "must have at most " in refused.error["message"]
    assert ", but has " in refused.error["message"]
    assert findings == [1]
    served = await edge.ask("POST", "/v1/responses", CREATE, headers=VICTIM)
    assert served.status == 200


async def test_long_list_in_a_websocket_message_is_rejected_by_its_length(
    edge: RunningEdge, findings: list[int]
) -> None:
    event = {"type": "response.create", "metadata": PAIRS} | CREATE
    async with edge.http.session.ws_connect(edge.http.url + "/v1/responses", headers=ATTACKER) as socket:
        await socket.send_str(dumps(event).decode())
        refused = await socket.receive_json()
    assert (refused["status"], refused["error"]["param"]) == (400, "metadata")
    assert findings == [1]


async def test_wrong_elements_of_many_lists_make_few_findings(edge: RunningEdge, findings: list[int]) -> None:
    """Each list is within its limit, and together they have 80,000 wrong elements."""
    messages = [{"role": "user", "content": [0] * 20}] * 4_000
    for path, given in ((RESPONSES, CREATE | {"input": messages}), (CHATS, CHAT | {"messages": messages})):
        refused = await edge.ask("POST", path, given, headers=ATTACKER)
        assert refused.status == 400
    assert len(findings) == 2
    assert max(findings) <= limits.MEMBERS_ITEMS_MAX


async def test_lists_far_beyond_the_ordinary_are_served(edge: RunningEdge) -> None:
    tools: list[Object] = [{"type": "function", "name": f"tool-{number}", "parameters": {}} for number in range(500)]
    values = [f"value {number}" for number in range(5_000)]
    tools.append({"type": "function", "name": "choose", "parameters": {"properties": {"value": {"enum": values}}}})
    parts = [{"type": "input_text", "text": "a line"}] * 2_000
    given = CREATE | {"tools": tools, "input": [{"role": "user", "content": parts}]}
    assert (await edge.ask("POST", "/v1/responses", given, headers=VICTIM)).status == 200
