from __future__ import annotations

import pytest

from antiphon_core.abandoned_calls import as_history
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Status
from antiphon_core.request.body import CreateRequest
from tests.support.server_tools import SEARCH, listed, server_call

APPROVAL: Object = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}


def parse(*items: Object) -> CreateRequest:
    return CreateRequest.parse(dumps({"model": "m", "input": [*items, {"role": "user", "content": "Hi"}]}))


@pytest.mark.parametrize(
    "item",
    [
        listed(SEARCH),
        listed(error="No answer."),
        server_call(),
        server_call(error="older clients write a text"),
        server_call(status=None, output=None),
        {"type": "mcp_approval_request", "server_label": "s", "name": "f", "arguments": "{}"},
        APPROVAL,
        {"type": "web_search_call", "status": "completed", "action": {"type": "search", "queries": ["tea"]}},
    ],
)
def test_items_of_server_tools_are_accepted_and_kept(item: Object) -> None:
    assert parse(item).input_given[0] == item


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (server_call(arguments=5), "input[0].arguments"),
        (server_call(server_label="no label"), "input[0].server_label"),
        (server_call(name=""), "input[0].name"),
        (listed({"name": "f"}), "input[0].tools[0].input_schema"),
        (APPROVAL | {"approve": "yes"}, "input[0].approve"),
        (APPROVAL | {"approval_request_id": ""}, "input[0].approval_request_id"),
    ],
)
def test_wrong_item_is_rejected_with_its_path(item: Object, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(item)
    assert caught.value.field == field


def test_calls_that_a_server_ran_stay_complete_in_the_history_of_a_failed_response() -> None:
    items = [server_call(), {"type": "function_call", "call_id": "c", "status": "completed"}]
    kept = loads(as_history(dumps(items), Status.FAILED))
    assert [item["status"] for item in kept] == ["completed", "incomplete"]
