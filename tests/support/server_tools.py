"""Tool servers as requests declare them, and the lists of their tools."""

from __future__ import annotations

from antiphon_core.jsons import Object

SEARCH: Object = {
    "name": "search",
    "description": "Searches.",
    "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}},
    "annotations": {"read_only": True},
}
BUY: Object = {"name": "buy", "description": "Buys.", "input_schema": {"type": "object"}}


def server(label: str = "shop", **members: object) -> Object:
    """Returns the tool `mcp` of a request."""
    return {"type": "mcp", "server_label": label, "require_approval": "never", **members}


def listed(*tools: Object, label: str = "shop", error: str | None = None) -> Object:
    """Returns the item that lists the tools of a server."""
    given: Object = {"id": f"mcpl_{label}", "type": "mcp_list_tools", "server_label": label, "tools": list(tools)}
    return given | ({"error": error} if error else {})


def server_call(call_id: str = "mcp_1", name: str = "search", **members: object) -> Object:
    """Returns a call that the server `shop` has answered."""
    return {
        "id": call_id,
        "type": "mcp_call",
        "status": "completed",
        "server_label": "shop",
        "name": name,
        "arguments": '{"q":"tea"}',
        "output": "Found.",
        "error": None,
        "approval_request_id": None,
        **members,
    }
