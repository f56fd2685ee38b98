"""Calls of responses that did not complete, as later turns read them."""

from __future__ import annotations

import pytest

from antiphon_core.abandoned_calls import as_history
from antiphon_core.jsons import dumps, loads
from antiphon_core.ports.store import Status

CALLS = [
    {"type": kind, "id": "c", "call_id": "call_1", "status": "completed"}
    for kind in (
        "function_call",
        "custom_tool_call",
        "shell_call",
        "local_shell_call",
        "computer_call",
        "tool_search_call",
    )
]
ENDED_BADLY = (Status.FAILED, Status.CANCELLED, Status.INCOMPLETE, Status.IN_PROGRESS)


@pytest.mark.parametrize("status", ENDED_BADLY)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: str(call["type"]))
def test_call_of_a_response_that_did_not_complete_is_incomplete(call: dict[str, str], status: Status) -> None:
    message = {"type": "message", "id": "m", "status": "completed", "content": []}
    shown = loads(as_history(dumps([message, call]), status))
    assert shown == [message, call | {"status": "incomplete"}]


def test_items_of_a_completed_response_are_the_same_bytes() -> None:
    items = dumps(CALLS)
    assert as_history(items, Status.COMPLETED) is items


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "id": "m", "status": "completed", "content": 'a "function_call"'},
        {"type": "function_call", "id": "c", "status": "completed", "async": True},
        {"type": "function_call_output", "id": "o", "status": "completed"},
        {"type": "function_call", "id": "c", "status": "incomplete"},
    ],
    ids=["message", "asynchronous call", "output", "incomplete call"],
)
def test_other_items_of_a_failed_response_stay(item: dict[str, object]) -> None:
    assert loads(as_history(dumps([item]), Status.FAILED)) == [item]
