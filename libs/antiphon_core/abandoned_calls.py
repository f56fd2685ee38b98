"""Calls of a response that failed, was cancelled or ended early, as later turns read them.

Such a response may have made a whole call, and its client may never answer it: the client saw an error, had
disconnected, or cancelled. Only calls of a completed response must be answered, as with OpenAI. So wherever the output
of a response becomes history, its calls get the status of the response: an incomplete call without an output is
skipped, and one with an output is shown to the model. The response itself keeps its items as they were streamed.

Calls that the server ran have their result in the call item itself, and stay as they are.
"""

from __future__ import annotations

from antiphon_core.items import SERVER_CALL_TYPES
from antiphon_core.jsons import Object, dumps, loads
from antiphon_core.ports.store import Status

_CALL_TYPE_END = "_call"
_MARK = b'_call"'


def as_history(output_items: bytes, status: Status) -> bytes:
    """The output of a response, a JSON array, as a history has it. The unchanged bytes if the response is completed or
    made no call."""
    if status is Status.COMPLETED or _MARK not in output_items:
        return output_items
    return dumps([_as_history(item) for item in loads(output_items)])


def _as_history(item: Object) -> Object:
    """The item with the status of its response. An asynchronous call stays as it is: it blocks no turn, and its output
    may still come."""
    item_type = str(item.get("type"))
    is_clients = item_type.endswith(_CALL_TYPE_END) and item_type not in SERVER_CALL_TYPES
    is_whole_call = is_clients and item.get("status") == "completed"
    return item | {"status": "incomplete"} if is_whole_call and item.get("async") is not True else item
