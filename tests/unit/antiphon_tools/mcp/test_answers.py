from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.ports.tools import Progress
from antiphon_tools.mcp.answers import MESSAGES_ITEMS_MAX, AnswerReader
from antiphon_tools.mcp.faults import HttpFault, ProtocolFault

JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"
RESULT = {"jsonrpc": "2.0", "id": 3, "result": {"content": []}}


def event(message: Any) -> bytes:
    return b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n"


def progress(value: Any, token: Any = 3, **more: Any) -> Any:
    params = {"progressToken": token, "progress": value, **more}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


class Reading:
    """A reader, with what it reports."""

    def __init__(self, status: int = 200, kind: str = EVENTS, *, length: int | None = None, wire_bytes: int = 1_000):
        self.progress: list[Progress] = []
        self.requests: list[tuple[Any, str]] = []
        self.reader = AnswerReader(3, wire_bytes, self.progress.append, lambda *asked: self.requests.append(asked))
        self.reader.begin(status, kind, length=length, compression=None)

    def read(self, *chunks: bytes) -> Any:
        for chunk in chunks:
            if self.reader.feed(chunk):
                return self.reader.result
        self.reader.finish()
        return self.reader.result


@given(st.integers(0, 400))
def test_an_answer_is_read_wherever_its_stream_is_cut(cut: int) -> None:
    stream = b"id: 0\ndata:\n\n" + event(progress(1, total=2, message="half\n")) + event(RESULT)
    reading = Reading()
    assert reading.read(stream[:cut], stream[cut:]) == {"content": []}
    assert reading.progress == [Progress(1.0, 2.0, "half")]


def test_a_json_answer_ends_with_its_body_and_may_be_a_batch() -> None:
    assert Reading(kind=JSON).read(b'{"jsonrpc":"2.0","id":3,', b'"result":{"a":1}}') == {"a": 1}
    assert Reading(kind=JSON).read(json.dumps([progress(1), RESULT]).encode()) == {"content": []}


def test_progress_of_another_request_and_malformed_progress_are_ignored() -> None:
    reading = Reading()
    for message in (progress(1, token=4), progress("x"), progress(1, total="x", message=5), {"method": "other"}):
        reading.reader.feed(event(message))
    assert reading.progress == [Progress(1.0)]


def test_a_request_of_the_server_is_reported() -> None:
    reading = Reading()
    reading.reader.feed(event({"jsonrpc": "2.0", "id": "e1", "method": "elicitation/create", "params": {}}))
    assert reading.requests == [("e1", "elicitation/create")]


def test_a_stream_without_an_answer_has_no_result() -> None:
    assert Reading().read(event(progress(1))) is None


@pytest.mark.parametrize(
    ("kind", "body", "why"),
    [
        (EVENTS, event(RESULT | {"id": 4}), "another request"),
        (EVENTS, event(RESULT | {"id": "3"}), "another request"),
        (EVENTS, event(RESULT | {"id": None}), "another request"),
        (EVENTS, event({"jsonrpc": "2.0", "id": 3}), "neither a result nor an error"),
        (EVENTS, event(RESULT | {"result": 5}), "neither a result nor an error"),
        (EVENTS, event(["x"]), "no JSON object"),
        (EVENTS, b"data: {\n\n", "cannot be read as JSON"),
        (EVENTS, event("x"), "cannot be read as JSON"),
        (EVENTS, b"data: " + b"[" * 900 + b"\n\n", "cannot be read as JSON"),
        (JSON, b"", "cannot be read as JSON"),
        (JSON, b'{"jsonrpc":"2.0","id":3,"result":{"a":"\\ud800"}}', "cannot be read as JSON"),
        (JSON, b" " * 2_000, "tools.wire_bytes"),
        (EVENTS, b"data: " + b"x" * 2_000, "tools.wire_bytes"),
        (EVENTS, b": ping\n\n" * 3_000, "tools.wire_bytes"),
        (JSON, json.dumps([progress(1)]).encode(), "without a result"),
    ],
)
def test_an_unusable_answer_is_a_fault_that_says_why(kind: str, body: bytes, why: str) -> None:
    with pytest.raises(ProtocolFault, match=why):
        Reading(kind=kind).read(body)


def test_messages_are_counted() -> None:
    with pytest.raises(ProtocolFault, match=f"{MESSAGES_ITEMS_MAX} messages"):
        Reading(wire_bytes=2**20).read(event({"method": "x"}) * (MESSAGES_ITEMS_MAX + 1))


@pytest.mark.parametrize(
    ("status", "kind", "body", "code", "message"),
    [
        (400, JSON, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"bad\\n arg"}}', -32602, "bad arg"),
        (404, JSON, b'{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"no"}}', -32601, "no"),
        (200, JSON, b'{"jsonrpc":"2.0","id":3,"error":{"code":"x"}}', 0, "The tool server failed."),
    ],
)
def test_a_json_rpc_error_counts_whatever_its_status(
    status: int, kind: str, body: bytes, code: int, message: str
) -> None:
    with pytest.raises(ProtocolFault) as caught:
        Reading(status, kind).read(body)
    assert (caught.value.code, caught.value.message, caught.value.status) == (code, message, status)


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (302, "", b""),
        (401, "text/html", b""),
        (403, JSON, b'{"error":"the token canary of bob is not valid"}'),
        (500, JSON, b'{"error":{"message":"canary"}}'),
        (503, JSON, b"x" * 100_000),
    ],
)
def test_any_other_error_is_its_status_without_its_body(status: int, kind: str, body: bytes) -> None:
    with pytest.raises(HttpFault) as caught:
        Reading(status, kind).read(body)
    assert caught.value.code == status
    assert "canary" not in caught.value.message


@pytest.mark.parametrize(
    ("status", "kind", "length", "compression", "why"),
    [
        (202, "", None, None, "without an answer"),
        (200, "text/html", None, None, "neither JSON nor events"),
        (200, JSON, 5_000, None, "tools.wire_bytes"),
        (200, JSON, None, "gzip", "compressed"),
    ],
)
def test_an_answer_with_an_unusable_head_is_not_read(
    status: int, kind: str, length: int | None, compression: str | None, why: str
) -> None:
    with pytest.raises(ProtocolFault, match=why):
        AnswerReader(3, 1_000).begin(status, kind, length=length, compression=compression)
