"""Calls of tools that a server runs, as the model is shown them.

    mcp_call               a call and its result
    mcp_approval_request   a call; its result is that of the `mcp_call` which it approved, or says that it did not run
    mcp_approval_response  if it denies the call, the result of the request
    web_search_call        a search of the web and its results, if this server ran it

The model made the calls of a round together, and their results came after all of them, so the items of a round are
shown as calls first and results then: the second call of a round and those behind it name the first one
(`parallel_with`). Every call has a result, because templates need one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from antiphon_core.jsons import Object, dumps
from antiphon_core.request.server_items import CALL, PARALLEL_WITH, REQUEST, RESPONSE, SEARCH

RUN = (CALL, SEARCH)
_JOINED = (*RUN, REQUEST)
SETTLING = (CALL, RESPONSE)
NOT_APPROVED = "The user did not approve this call. It was not run."
NOT_RUN = "This call was not run."
UNKNOWN_OUTCOME = "The outcome of this call is unknown. Check before you call it again."


def result_text(item: Object) -> str:
    """The result of a call for the model: its output, or why there is none."""
    output, error = item.get("output"), item.get("error")
    if isinstance(output, str) and not error:
        return output
    if error:
        return f"Error: {_error_text(error)}"
    if isinstance(output, str):
        return output
    return NOT_RUN if item.get("status") == "incomplete" else UNKNOWN_OUTCOME


def _error_text(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error)
    message, content = error.get("message"), error.get("content")
    if isinstance(message, str):
        return message
    return dumps(content if content is not None else error).decode()


def is_own_search(item: Object) -> bool:
    """Whether this server ran a search. One of another server has no results that the model could read."""
    return isinstance(item.get("results"), list) or isinstance(item.get("error"), dict)


def query_of(item: Object) -> str:
    """The query of a search."""
    action = item.get("action")
    query = action.get("query") if isinstance(action, dict) else ""
    return query if isinstance(query, str) else ""


def search_text(item: Object) -> str:
    """The results of a search for the model, or why there are none."""
    if error := item.get("error"):
        return f"Error: {_error_text(error)}"
    found = [result for result in item.get("results") or () if isinstance(result, dict)]
    return "\n\n".join(map(_hit_text, found)) or "Nothing was found."


def _hit_text(result: Object) -> str:
    head = f"[{result.get('number', '')}] {result.get('title', '')}"
    date = f" ({result['date']})" if result.get("date") else ""
    return f"{head}{date}\n{result.get('url', '')}\n{result.get('text', '')}"


def denial_text(response: Object) -> str:
    """The result of a call that was denied."""
    reason = response.get("reason")
    return f"{NOT_APPROVED} Reason: {reason}" if isinstance(reason, str) and reason else NOT_APPROVED


def settled_request(item: Object) -> object:
    """The id of the approval request that an item of the types `SETTLING` settles, if it does: its call has run, or was
    denied."""
    is_settled = item["type"] == CALL or item.get("approve") is not True
    return item.get("approval_request_id") if is_settled else None


def ends_of_rounds(items: Sequence[Any]) -> Mapping[str, int]:
    """For each round of several calls the index of its last call, by the id of its first one."""
    return {
        item[PARALLEL_WITH]: index
        for index, item in enumerate(items)
        if isinstance(item, dict) and item.get("type") in _JOINED and isinstance(item.get(PARALLEL_WITH), str)
    }


def count(output: Collection[Any]) -> int:
    """The number of calls in the output of a response."""
    return sum(item.get("type") in RUN for item in output)
