"""The two eras of MCP, as requests: what a server is sent, in headers and body. No I/O.

    handshake   up to 2025-11-25: `initialize`, then requests with the version that was agreed on, and the session's id
                if the server gave one. A disconnect cancels nothing; `notifications/cancelled` does.
    stateless   2026-07-28: every request stands alone, and carries version, client and capabilities in `_meta`. Closing
                the stream of its answer cancels a request.

A server of unknown era is asked `server/discover`. Any error other than a list of stateless versions means that it
speaks the handshake.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from antiphon_core.jsons import Object, dumps
from antiphon_core.version import VERSION

STATELESS_VERSION: Final = "2026-07-28"
HANDSHAKE_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Newest first: the first is offered."""

DISCOVER, INITIALIZE = "server/discover", "initialize"
LIST_TOOLS, CALL_TOOL, PING = "tools/list", "tools/call", "ping"
INITIALIZED, CANCELLED, PROGRESS = (
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
)
SESSION_HEADER: Final = "Mcp-Session-Id"

_CLIENT: Object = {"name": "antiphon", "version": VERSION}
_CAPABILITIES: Object = {}  # no elicitation, sampling or roots: a server must not ask for them
_META = "io.modelcontextprotocol/"
_ENVELOPE: Object = {
    f"{_META}protocolVersion": STATELESS_VERSION,
    f"{_META}clientInfo": _CLIENT,
    f"{_META}clientCapabilities": _CAPABILITIES,
}
_PLAIN = re.compile(r"[\x20-\x7e]*")
_ENCODED = re.compile(r"=\?base64\?.*\?=")
_SESSION_ID = re.compile(r"[\x21-\x7e]{0,1024}")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")
_BASE_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@dataclass(frozen=True, slots=True)
class Stateless:
    """A server of the stateless era."""


@dataclass(frozen=True, slots=True)
class HandshakeSession:
    """A server of the handshake era, with the version that was agreed on. `session_id` is empty if it has none."""

    version: str
    session_id: str = ""


Peer = Stateless | HandshakeSession


@dataclass(frozen=True, slots=True)
class Message:
    """One POST: a request, or a notification or an answer, which have no `id` here because nothing answers them."""

    headers: Mapping[str, str]
    body: bytes
    id: int | None = None


def discover(request_id: int) -> Message:
    """Asks a server whether it speaks the stateless era."""
    return request(Stateless(), request_id, DISCOVER, {})


def initialize(request_id: int) -> Message:
    """Begins the handshake."""
    params = {"protocolVersion": HANDSHAKE_VERSIONS[0], "capabilities": _CAPABILITIES, "clientInfo": _CLIENT}
    return _message(_BASE_HEADERS, request_id, INITIALIZE, params)


def request(
    peer: Peer, request_id: int, method: str, params: Object, *, meta: Object | None = None, name: str = ""
) -> Message:
    """A request to a server whose era is known. `name` is the tool's, for `tools/call`."""
    meta = meta or {}
    if isinstance(peer, Stateless):
        headers = {**_BASE_HEADERS, "MCP-Protocol-Version": STATELESS_VERSION, "Mcp-Method": method}
        if name:
            headers["Mcp-Name"] = header_value(name)
        return _message(headers, request_id, method, {**params, "_meta": _ENVELOPE | meta})
    return _message(_session_headers(peer), request_id, method, {**params, "_meta": meta} if meta else params)


def notification(peer: HandshakeSession, method: str, params: Object | None = None) -> Message:
    body: Object = {"jsonrpc": "2.0", "method": method}
    return Message(_session_headers(peer), dumps(body | ({"params": params} if params else {})))


def answer(peer: HandshakeSession, request_id: Any, method: str) -> Message:
    """The answer to a request of the server. Only `ping` is known."""
    refusal = {"error": {"code": -32_601, "message": "This client has no such method."}}
    outcome: Object = {"result": {}} if method == PING else refusal
    return Message(_session_headers(peer), dumps({"jsonrpc": "2.0", "id": request_id} | outcome))


def is_session_id(text: str) -> bool:
    """Whether a text may be the id of a session: visible ASCII, as MCP says; empty is none."""
    return _SESSION_ID.fullmatch(text) is not None


def delete_headers(peer: HandshakeSession) -> dict[str, str]:
    """The headers of the DELETE that ends a session."""
    return _session_headers(peer)


def header_value(text: str) -> str:
    """A text as the value of a header, in base64 unless it is plain ASCII."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not _ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def argument_headers(schema: Object, arguments: Object) -> dict[str, str]:
    """The `Mcp-Param-*` headers of a call: of the arguments whose schema says `x-mcp-header`, in chains of `properties`
    only. Malformed marks are ignored."""
    headers: dict[str, str] = {}
    nodes: list[tuple[Any, Any]] = [(schema, arguments)]
    while nodes:
        node, value = nodes.pop()
        properties = node.get("properties")
        if not isinstance(properties, dict) or not isinstance(value, dict):
            continue
        for name, inner in properties.items():
            given = value.get(name)
            if not isinstance(inner, dict) or given is None:
                continue
            mark = inner.get("x-mcp-header")
            if isinstance(mark, str) and _TOKEN.fullmatch(mark) and isinstance(given, (str, int)):
                text = str(given).lower() if isinstance(given, bool) else str(given)
                headers[f"Mcp-Param-{mark}"] = header_value(text)
            nodes.append((inner, given))
    return headers


def _session_headers(peer: HandshakeSession) -> dict[str, str]:
    headers = {**_BASE_HEADERS, "MCP-Protocol-Version": peer.version}
    if peer.session_id:
        headers[SESSION_HEADER] = peer.session_id
    return headers


def _message(headers: Mapping[str, str], request_id: int, method: str, params: Object) -> Message:
    body: Object = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return Message(headers, dumps(body), request_id)
