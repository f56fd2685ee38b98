"""The ends of calls: the item with its result, and the events that tell it.

outcome          status       error                        for the model
ok               completed                                 the result
tool_error       failed       mcp_tool_execution_error     the tool's message
http_error       failed       http_error                   the status
protocol_error,  failed       mcp_protocol_error           the message
refused, not_sent
unknown          incomplete   mcp_protocol_error, -32001   the call may have run, and was not repeated
not run          incomplete   mcp_protocol_error, -32000   the limit
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from antiphon_core import events
from antiphon_core.jsons import Object
from antiphon_core.ports.tools import Outcome, ToolResult
from antiphon_core.ports.translator import Batch
from antiphon_core.ports.web_search import SearchHit
from antiphon_core.request.server_items import SEARCH
from antiphon_core.response import unknown_outcome

NOT_RUN_CODE = -32_000


def ended_call(item: Object, result: ToolResult) -> Object:
    """The item of a call with its result."""
    if result.outcome is Outcome.OK:
        return item | {"status": "completed", "output": _text_of(result), "error": None}
    if result.outcome is Outcome.UNKNOWN:
        return item | {"status": "incomplete", "output": None, "error": unknown_outcome(_message_of(result))}
    return item | {"status": "failed", "output": None, "error": _error_of(result)}


def call_not_run(item: Object, reason: str) -> Object:
    """The item of a call that is not sent."""
    message = f"This call was not run: {reason}."
    if item["type"] == SEARCH:
        return failed_search(item, message, status="incomplete")
    return item | {"status": "incomplete", "output": None, "error": _protocol_error(NOT_RUN_CODE, message)}


def ended_search(item: Object, hits: Sequence[SearchHit]) -> Object:
    """The item of a search with its results, not numbered yet."""
    results = [{"url": hit.url, "title": hit.title, "text": hit.text, "date": hit.date} for hit in hits]
    action = item["action"] | {"sources": [{"type": "url", "url": hit.url} for hit in hits]}
    return item | {"status": "completed", "action": action, "results": results}


def last_number(items: Iterable[Any]) -> int:
    """The greatest number of a search result among items; 0 if there is none."""
    results = (item.get("results") for item in items if item.get("type") == SEARCH)
    found = (each.get("number") for given in results if isinstance(given, list) for each in given if _is_object(each))
    return max((number for number in found if isinstance(number, int)), default=0)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def with_numbers(item: Object, before: Sequence[Object], *, behind: int = 0) -> Object:
    """The item of a call; of a search with the numbers of its results, by which the model cites them. They go on behind
    those of the items `before`, and behind the number `behind`, the last one of the conversation before the response:
    the model reads all of these results."""
    if item["type"] != SEARCH:
        return item
    first = 1 + max(behind, last_number(before))
    numbered = [{"number": number, **result} for number, result in enumerate(item["results"], first)]
    return item | {"results": numbered}


def failed_search(item: Object, message: str, *, status: str = "failed") -> Object:
    """The item of a search without results."""
    return item | {"status": status, "results": [], "error": {"message": message}}


def _error_of(result: ToolResult) -> Object:
    if result.outcome is Outcome.TOOL_ERROR:
        content = [{"type": "text", "text": _text_of(result)}]
        return {"type": "mcp_tool_execution_error", "content": content}
    code = result.error.code if result.error is not None else 0
    if result.outcome is Outcome.HTTP_ERROR:
        return {"type": "http_error", "code": code, "message": _message_of(result)}
    return _protocol_error(code, _message_of(result))


def _protocol_error(code: int, message: str) -> Object:
    return {"type": "mcp_protocol_error", "code": code, "message": message}


def _message_of(result: ToolResult) -> str:
    return result.error.message if result.error is not None else ""


def _text_of(result: ToolResult) -> str:
    """The text of a result. Images are counted: no item of a call can have one."""
    if not result.images:
        return result.text
    return f"{result.text}\n[{len(result.images)} images are not shown.]".lstrip("\n")


def _end_events(item: Object) -> Sequence[str]:
    """The types of the events before the end of the item. OpenAI has none for a search that failed."""
    is_completed = item["status"] == "completed"
    if item["type"] == SEARCH:
        return (events.WEB_SEARCH_CALL_COMPLETED,) if is_completed else ()
    return (events.MCP_CALL_COMPLETED if is_completed else events.MCP_CALL_FAILED,)


def end_batch(item: Object, output_index: int, first_sequence: int) -> Batch:
    """The events that end a call."""
    told: list[Object] = [
        *({"type": end, "item_id": item["id"], "output_index": output_index} for end in _end_events(item)),
        {"type": events.OUTPUT_ITEM_DONE, "output_index": output_index, "item": item},
    ]
    frames = [events.encode(event | {"sequence_number": number}) for number, event in enumerate(told, first_sequence)]
    return Batch(first_sequence, len(frames), b"".join(frames))
