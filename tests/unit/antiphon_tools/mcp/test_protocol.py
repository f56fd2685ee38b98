from __future__ import annotations

import json

import pytest

from antiphon_core.jsons import Object
from antiphon_tools.mcp import protocol
from antiphon_tools.mcp.protocol import HandshakeSession, Stateless, argument_headers, header_value

SESSION = HandshakeSession("2025-06-18", "s-1")


def test_a_stateless_request_stands_alone() -> None:
    message = protocol.request(Stateless(), 7, "tools/call", {"name": "ä"}, meta={"progressToken": 7}, name="ä")
    body = json.loads(message.body)
    assert (body["id"], body["method"], body["params"]["name"]) == (7, "tools/call", "ä")
    assert body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert body["params"]["_meta"]["progressToken"] == 7
    assert message.headers["MCP-Protocol-Version"] == "2026-07-28"
    assert (message.headers["Mcp-Method"], message.headers["Mcp-Name"]) == ("tools/call", "=?base64?w6Q=?=")
    assert protocol.SESSION_HEADER not in message.headers


def test_a_request_of_a_session_names_version_and_session() -> None:
    message = protocol.request(SESSION, 2, "tools/list", {})
    assert json.loads(message.body) == {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    assert message.headers["MCP-Protocol-Version"] == "2025-06-18"
    assert message.headers["Mcp-Session-Id"] == "s-1"
    assert "Mcp-Session-Id" not in protocol.request(HandshakeSession("2025-06-18"), 2, "tools/list", {}).headers


def test_the_handshake_offers_the_newest_version_of_its_era() -> None:
    message = protocol.initialize(1)
    assert json.loads(message.body)["params"]["protocolVersion"] == "2025-11-25"
    assert "MCP-Protocol-Version" not in message.headers


@pytest.mark.parametrize(("method", "member"), [("ping", "result"), ("elicitation/create", "error")])
def test_a_ping_is_answered_and_other_requests_are_refused(method: str, member: str) -> None:
    body = json.loads(protocol.answer(SESSION, "x", method).body)
    assert body["id"] == "x"
    assert member in body


@pytest.mark.parametrize(
    ("text", "value"),
    [("a b", "a b"), (" a", "=?base64?IGE=?="), ("a\nb", "=?base64?YQpi?="), ("=?base64?eA==?=", None)],
)
def test_header_values_are_plain_ascii_or_base64(text: str, value: str | None) -> None:
    found = header_value(text)
    assert found == (value or "=?base64?PT9iYXNlNjQ/ZUE9PT89?=")


@pytest.mark.parametrize(
    ("text", "fits"), [("", True), ("a-1", True), ("a b", False), ("ä", False), ("x" * 2_000, False)]
)
def test_session_ids_are_visible_ascii(text: str, fits: bool) -> None:
    assert protocol.is_session_id(text) is fits


def test_marked_arguments_become_headers_through_properties_only() -> None:
    schema: Object = {
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
            "bad": {"type": "string", "x-mcp-header": "a: b\r\nc"},
            "inner": {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "list": {"type": "array", "items": {"type": "string", "x-mcp-header": "Item"}},
        }
    }
    arguments: Object = {"region": "ü", "dry": True, "bad": "x", "inner": {"n": 3}, "list": ["x"]}
    assert argument_headers(schema, arguments) == {
        "Mcp-Param-Region": "=?base64?w7w=?=",
        "Mcp-Param-Dry": "true",
        "Mcp-Param-N": "3",
    }
    assert argument_headers({"properties": []}, arguments) == {}
