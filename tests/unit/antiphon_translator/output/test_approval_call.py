"""A call that needs an approval, while the model writes it. test_response_rounds.py has its events."""

from __future__ import annotations

from antiphon_core.limits import TOOL_ARGUMENTS_BYTES_MAX
from antiphon_translator.output.approval_call import ApprovalCall


def test_request_has_the_whole_arguments() -> None:
    call = ApprovalCall({"server_label": "shop", "name": "buy"})
    for piece in ('{"who":', '"ü"}'):
        call.add(piece)
    assert call.is_readable
    expected = {"type": "mcp_approval_request", "server_label": "shop", "name": "buy", "arguments": '{"who":"ü"}'}
    assert call.request() == expected


def test_arguments_that_no_server_takes_are_not_kept() -> None:
    call = ApprovalCall({})
    for piece in ("ü" * (TOOL_ARGUMENTS_BYTES_MAX // 2), "x", "y"):
        call.add(piece)
    assert not call.is_readable
    assert call.arguments == ""
