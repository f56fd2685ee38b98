"""Rounds of a response that calls tools of servers (docs/adr/0196).

A round is one generation. It begins with the output of the rounds before it, which is empty for the first round but for
lists of tools and calls that were approved.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from antiphon_core.jsons import Object, parse_array
from antiphon_core.ports.translator import Resume, Turn
from antiphon_core.request.body import Parameters
from antiphon_core.request.server_items import CALL, REQUEST
from antiphon_translator.prompt import server_calls
from antiphon_translator.prompt.tools import ToolSet


def seed_of(turn: Turn) -> str:
    """The seed of the ids of a round behind other output: every round has other ids, and every replica the same ones
    for a round. The seed of a response without output is its id."""
    return f"{turn.response_id}/{len(parse_array(turn.output, field='output'))}"


def split_output(output: Sequence[Object], resume: Resume | None) -> tuple[Sequence[Object], Sequence[Object]]:
    """The items before a round whose events were sent, and those whose events were not. All were sent, if the round has
    begun."""
    if resume is None:
        return (), output
    sent = len(output) if resume.token_ids else resume.sent_items
    return output[:sent], output[sent:]


def generates_nothing(output: Collection[Any]) -> bool:
    """Whether a round only sends the events of its output: calls that were approved, which are to be run, and requests
    for approvals."""
    return any(
        item.get("type") == REQUEST or (item.get("type") == CALL and item.get("status") == "in_progress")
        for item in output
    )


def tools_of_round(offered: ToolSet, output: Collection[Any], parameters: Parameters) -> ToolSet:
    """The tools of a round behind other output. A choice of the request holds for the first round."""
    if _is_later_round(output):
        offered = offered.after_first_round()
    most = parameters.max_tool_calls
    return offered.without_server_calls() if most is not None and server_calls.count(output) >= most else offered


def _is_later_round(output: Collection[Any]) -> bool:
    """Whether the model has already called a tool. A call that was approved came before the first round."""
    return any(item.get("type") in server_calls.RUN and not item.get("approval_request_id") for item in output)
