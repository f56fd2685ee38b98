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

from antiphon_core import events
from antiphon_core.jsons import Object
from antiphon_core.ports.tools import Outcome, ToolResult
from antiphon_core.ports.translator import Batch
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
    error = _protocol_error(NOT_RUN_CODE, f"This call was not run: {reason}.")
    return item | {"status": "incomplete", "output": None, "error": error}


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


def end_batch(item: Object, output_index: int, first_sequence: int) -> Batch:
    """The events that end a call."""
    end = events.MCP_CALL_COMPLETED if item["status"] == "completed" else events.MCP_CALL_FAILED
    told: list[Object] = [
        {"type": end, "item_id": item["id"], "output_index": output_index},
        {"type": events.OUTPUT_ITEM_DONE, "output_index": output_index, "item": item},
    ]
    frames = [events.encode(event | {"sequence_number": number}) for number, event in enumerate(told, first_sequence)]
    return Batch(first_sequence, len(frames), b"".join(frames))
