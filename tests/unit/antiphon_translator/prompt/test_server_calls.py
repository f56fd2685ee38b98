from __future__ import annotations

from typing import Any

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_translator.prompt import conversation_items, server_calls
from antiphon_translator.prompt.tool_names import server_tool_name
from tests.support.served_models import message
from tests.support.server_tools import listed, server_call

REQUEST: Object = {
    "id": "mcpr_1",
    "type": "mcp_approval_request",
    "server_label": "shop",
    "name": "buy",
    "arguments": "{}",
}
USER = message("user", "Hi")


def answer(*, approve: bool, **members: Any) -> Object:
    return {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": approve, **members}


def shown(*items: Object) -> list[tuple[str, str]]:
    """The messages of these items, as role and text; a call is its name."""
    built, _ = conversation_items.build(instructions=None, history=[USER], given=items)
    return [(each.role, ",".join(call.name for call in each.calls) or each.text) for each in built.messages[1:]]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({}, "Found."),
        ({"output": "", "error": None}, ""),
        ({"output": None, "error": "No."}, "Error: No."),
        ({"output": None, "error": {"type": "http_error", "code": 500, "message": "Broken."}}, "Error: Broken."),
        (
            {"output": None, "error": {"type": "mcp_tool_execution_error", "content": {"text": "No tea."}}},
            'Error: {"text":"No tea."}',
        ),
        ({"output": None, "status": "incomplete"}, server_calls.NOT_RUN),
        ({"output": None, "status": "in_progress"}, server_calls.UNKNOWN_OUTCOME),
    ],
)
def test_result_of_a_call_is_its_output_or_why_there_is_none(members: Object, text: str) -> None:
    assert shown(server_call(**members)) == [("assistant", "shop__search"), ("tool", text)]


def test_approved_call_is_shown_once_with_the_result_of_its_run() -> None:
    run = server_call("mcp_9", "buy", approval_request_id="mcpr_1", output="Bought.")
    assert shown(REQUEST, answer(approve=True), listed(), run) == [("assistant", "shop__buy"), ("tool", "Bought.")]


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([answer(approve=False)], server_calls.NOT_APPROVED),
        ([answer(approve=False, reason="Too dear.")], f"{server_calls.NOT_APPROVED} Reason: Too dear."),
        ([message("user", "And?")], server_calls.NOT_APPROVED),
    ],
)
def test_call_without_an_approval_has_a_result_that_says_so(items: list[Object], text: str) -> None:
    assert shown(REQUEST, *items)[:2] == [("assistant", "shop__buy"), ("tool", text)]


def test_answer_to_a_request_that_is_not_there_is_rejected_with_its_path() -> None:
    with pytest.raises(InvalidRequest) as caught:
        shown(answer(approve=False))
    assert caught.value.field == "input[0].approval_request_id"


def test_call_whose_request_was_left_out_is_shown_by_itself() -> None:
    assert shown(server_call(approval_request_id="mcpr_7"))[0] == ("assistant", "shop__search")


@pytest.mark.parametrize(
    ("label", "name", "shown_as"),
    [("gh", "search", "gh__search"), ("gh", "a.b", "gh__a_b_"), ("gh", "x" * 80, "gh__xxx"), ("gh", "a/b", "gh__a_b_")],
)
def test_name_for_the_model_is_fit_and_differs_for_different_tools(label: str, name: str, shown_as: str) -> None:
    made = server_tool_name(label, name)
    assert made.startswith(shown_as)
    assert len(made) <= 64
    assert made.replace("_", "").replace("-", "").isalnum()


def test_names_that_are_cut_or_changed_alike_stay_apart() -> None:
    names = ["a.b", "a/b", "a_b", "x" * 80, "x" * 81]
    assert len({server_tool_name("gh", name) for name in names}) == len(names)
