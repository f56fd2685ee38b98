from __future__ import annotations

import pytest

from antiphon_core import events
from antiphon_core.jsons import Object
from antiphon_core.ports.tools import CallError, Outcome, ToolResult
from antiphon_edge.tools.call_ends import call_not_run, end_batch, ended_call
from tests.support.server_tools import server_call

ITEM = server_call(status="in_progress", output=None)


@pytest.mark.parametrize(
    ("result", "members"),
    [
        (ToolResult(Outcome.OK, "Tea."), {"status": "completed", "output": "Tea.", "error": None}),
        (
            ToolResult(Outcome.OK, "Tea.", images=("data:a", "data:b")),
            {"status": "completed", "output": "Tea.\n[2 images are not shown.]"},
        ),
        (
            ToolResult(Outcome.TOOL_ERROR, "No tea."),
            {
                "status": "failed",
                "output": None,
                "error": {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "No tea."}]},
            },
        ),
        (
            ToolResult(Outcome.HTTP_ERROR, error=CallError(503, "Away.")),
            {"status": "failed", "error": {"type": "http_error", "code": 503, "message": "Away."}},
        ),
        *(
            (
                ToolResult(outcome, error=CallError(-32602, "No.")),
                {"status": "failed", "error": {"type": "mcp_protocol_error", "code": -32602, "message": "No."}},
            )
            for outcome in (Outcome.PROTOCOL_ERROR, Outcome.REFUSED, Outcome.NOT_SENT)
        ),
    ],
)
def test_end_of_a_call_has_the_form_of_its_outcome(result: ToolResult, members: Object) -> None:
    ended = ended_call(ITEM, result)
    assert {name: ended[name] for name in members} == members


def test_unknown_outcome_is_told_as_such() -> None:
    ended = ended_call(ITEM, ToolResult(Outcome.UNKNOWN, error=CallError(0, "the connection broke")))
    assert (ended["status"], ended["output"], ended["error"]["code"]) == ("incomplete", None, -32001)
    assert "unknown: the connection broke. It was not repeated." in ended["error"]["message"]


def test_call_that_was_not_sent_says_why() -> None:
    ended = call_not_run(ITEM, "the time is over")
    assert (ended["status"], ended["error"]["code"]) == ("incomplete", -32000)
    assert ended["error"]["message"] == "This call was not run: the time is over."


@pytest.mark.parametrize(
    ("status", "end"), [("completed", "completed"), ("failed", "failed"), ("incomplete", "failed")]
)
def test_events_of_an_end_are_numbered_and_have_the_item(status: str, end: str) -> None:
    item = ITEM | {"status": status}
    batch = end_batch(item, 3, 7)
    told, done = events.decode(batch.frames)
    assert (batch.first_sequence, batch.count) == (7, 2)
    assert told == {"type": f"response.mcp_call.{end}", "item_id": "mcp_1", "output_index": 3, "sequence_number": 7}
    assert (done["type"], done["item"], done["sequence_number"]) == ("response.output_item.done", item, 8)
