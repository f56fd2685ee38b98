"""Which calls need an approval, and which answers of an input count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from antiphon_core.errors import ApprovalNotFound, InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.ports.tools import Approval
from antiphon_core.request.server_tools import McpTool
from antiphon_edge.tools import approvals
from antiphon_store.testing.approvals import new_id
from antiphon_store.testing.subject import draft
from tests.support.server_tools import server
from tests.support.tool_turns import READ, WRITE

ASKER = draft()
ID, OTHER = new_id(ASKER), new_id(ASKER)
USER: Object = {"role": "user", "content": "Hi"}
ANSWER: Object = {"type": "mcp_approval_response", "approval_request_id": ID, "approve": True}
REQUEST: Object = {"type": "mcp_approval_request", "id": ID, "name": "buy", "arguments": "{}", "server_label": "shop"}


@pytest.mark.parametrize(
    ("operators", "asked", "searching", "buying"),
    [
        (Approval.NEVER, None, False, False),
        (Approval.NEVER, "always", True, True),
        (Approval.NEVER, {"always": {"tool_names": ["buy"]}, "never": {}}, False, True),
        (Approval.CLIENT, None, True, True),
        (Approval.CLIENT, "always", True, True),
        (Approval.CLIENT, "never", False, False),
        (Approval.CLIENT, {"never": {"tool_names": ["search"]}}, False, True),
        (Approval.CLIENT, {"never": {"read_only": True}}, False, True),
        (Approval.CLIENT, {"always": {"tool_names": ["buy"]}}, True, True),
        (Approval.CLIENT, {"always": {"read_only": False}, "never": {"tool_names": ["search", "buy"]}}, False, True),
        (Approval.CLIENT, {}, True, True),
        (Approval.ALWAYS, "never", True, True),
    ],
)
def test_the_stricter_rule_of_operator_and_request_counts(
    operators: Approval, asked: Any, searching: bool, buying: bool
) -> None:
    declared = McpTool.model_validate(server(require_approval=asked))
    found = [approvals.needs_approval(declared, operators, tool) for tool in (READ, WRITE)]
    assert found == [searching, buying]


def test_annotations_that_the_operator_does_not_trust_spare_no_approval() -> None:
    claims = replace(READ, is_read_only=False, annotations=b'{"readOnlyHint":true}')
    for asked in ({"never": {"read_only": True}}, {"always": {"read_only": True}}):
        declared = McpTool.model_validate(server(require_approval=asked))
        assert approvals.needs_approval(declared, Approval.CLIENT, claims)


@pytest.mark.parametrize(
    ("items", "count"),
    [
        ([ANSWER], 1),
        ([ANSWER, USER], 1),
        ([USER, REQUEST, ANSWER], 1),
        ([ANSWER, REQUEST | {"id": OTHER}, ANSWER | {"approval_request_id": OTHER}], 2),
        ([ANSWER, {"type": "mcp_call", "approval_request_id": ID}, USER], 0),
        ([ANSWER, {"type": "message", "role": "assistant", "content": []}], 0),
        ([ANSWER, {"type": "reasoning"}, USER], 0),
        ([REQUEST | {"id": "mcpr_x"}, ANSWER | {"approval_request_id": "mcpr_x"}, USER], 0),
        ([USER], 0),
    ],
)
def test_answers_before_an_item_of_the_model_are_history(items: list[Object], count: int) -> None:
    assert len(approvals.answers_in(items)) == count


def test_two_answers_to_one_request_are_rejected() -> None:
    with pytest.raises(InvalidRequest):
        approvals.answers_in([ANSWER, ANSWER | {"approve": False}])


def require(items: list[Object], *, has_history: bool = False, is_stored: bool = True, of: str = ASKER.id) -> None:
    answers = approvals.answers_in(items)
    approvals.require_answerable(answers, items, response_id=of, has_history=has_history, is_stored=is_stored)


def test_a_request_is_in_the_history_or_in_the_input() -> None:
    require([ANSWER], has_history=True)
    require([REQUEST, ANSWER])
    for items, has_history, code in (
        ([REQUEST, ANSWER], True, "invalid_value"),
        ([ANSWER], False, "approval_not_in_history"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            require(items, has_history=has_history)
        assert (caught.value.field, caught.value.code) == ("input", code)


def test_answers_of_other_services_trees_and_unstored_responses_are_rejected() -> None:
    with pytest.raises(ApprovalNotFound):
        require([ANSWER | {"approval_request_id": "mcpr_1"}], has_history=True)
    with pytest.raises(InvalidRequest):
        require([ANSWER], has_history=True, of=draft().id)
    with pytest.raises(InvalidRequest) as caught:
        require([ANSWER], has_history=True, is_stored=False)
    assert caught.value.field == "store"
