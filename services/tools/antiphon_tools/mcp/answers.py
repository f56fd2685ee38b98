"""Reads the answer to one request: from status, content type and bytes to the JSON-RPC result. No I/O.

    WAITING ──head──▶ BODY     one JSON document, at its end        ──▶ ANSWERED
                  ├─▶ EVENTS   messages as events, one at a time    ──▶ ANSWERED
                  └─▶ ERROR    a JSON-RPC error with a status of its own, or the status

Bytes are counted before they are parsed. In EVENTS, the server may send progress and requests of its own before the
answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from antiphon_core import jsons
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object
from antiphon_core.ports.tools import OnProgress, Progress, ignore_progress
from antiphon_tools.mcp.cleaning import clean_line
from antiphon_tools.mcp.event_stream import EventStream
from antiphon_tools.mcp.faults import HttpFault, ProtocolFault, unusable
from antiphon_tools.mcp.protocol import PROGRESS

STREAM_FACTOR = 16
"""A stream may have this many times the bytes of one message: progress of an hour, ten times a second."""
MESSAGES_ITEMS_MAX = 50_000
ERROR_BYTES_MAX = 64 * 2**10

OnRequest = Callable[[Any, str], None]
"""Takes the id and the method of a request that the server sends."""


def ignore_request(_id: Any, _method: str) -> None:
    """Takes requests of a server that must not send any."""


class _State(Enum):
    WAITING = auto()
    BODY = auto()
    EVENTS = auto()
    ERROR = auto()
    ANSWERED = auto()


_KINDS = {"application/json": _State.BODY, "text/event-stream": _State.EVENTS}


@dataclass(slots=True)
class AnswerReader:
    """The answer to the request with this id. Use once."""

    request_id: int
    wire_bytes: int
    on_progress: OnProgress = ignore_progress
    on_request: OnRequest = ignore_request
    result: Object | None = None
    """The result, once it is there."""
    _state: _State = _State.WAITING
    _status: int = 0
    _body: bytearray = field(default_factory=bytearray)
    _bytes: int = 0
    _messages: int = 0
    _events: EventStream | None = None

    def begin(self, status: int, content_type: str, *, length: int | None, compression: str | None) -> None:
        """Takes the head. ProtocolFault, HttpFault: nothing usable can follow."""
        self._status = status
        if compression is not None:
            raise unusable(f"compressed its answer ({compression}), which was not asked for")
        kind = _KINDS.get(content_type.partition(";")[0].strip().lower())
        if status >= 400:
            if kind is not _State.BODY:
                raise self._status_fault()
            self._state = _State.ERROR
            return
        if status != 200:
            raise self._status_fault()
        if kind is None:
            raise unusable("answered with neither JSON nor events")
        if kind is _State.EVENTS:
            self._events = EventStream(self.wire_bytes)
        elif (length or 0) > self.wire_bytes:
            raise self._too_large()
        self._state = kind

    def feed(self, chunk: bytes) -> bool:
        """Takes bytes of the body. True: the result is there, and the rest need not be read. ProtocolFault: the answer
        is an error, or unusable."""
        self._bytes += len(chunk)
        if self._events is not None:
            if self._bytes > STREAM_FACTOR * self.wire_bytes:
                raise self._too_large()
            for data in self._events.feed(chunk):
                self._read_messages(data)
                if self.result is not None:
                    return True
            return False
        if self._bytes > (ERROR_BYTES_MAX if self._state is _State.ERROR else self.wire_bytes):
            raise self._status_fault() if self._state is _State.ERROR else self._too_large()
        self._body += chunk
        return False

    def finish(self) -> None:
        """Takes the end of the body. A stream that ends without an answer has no `result`. ProtocolFault, HttpFault."""
        if self._state is _State.BODY:
            self._read_messages(bytes(self._body))
            if self.result is None:
                raise unusable("answered without a result")
        elif self._state is _State.ERROR:
            raise self._error_in_body()

    def _read_messages(self, data: bytes) -> None:
        value = _parse(data)
        for message in value if isinstance(value, list) else (value,):
            self._messages += 1
            if self._messages > MESSAGES_ITEMS_MAX:
                raise unusable(f"sent more than {MESSAGES_ITEMS_MAX} messages in one answer")
            if not isinstance(message, dict):
                raise unusable("sent a message that is no JSON object")
            self._take(message)

    def _take(self, message: Object) -> None:
        method = message.get("method")
        if isinstance(method, str):
            if "id" in message:
                self.on_request(message["id"], method)
            elif method == PROGRESS:
                self._take_progress(message.get("params"))
            return
        if message.get("id") != self.request_id or isinstance(message.get("id"), bool):
            raise unusable("answered another request than the one it was sent")
        if "error" in message:
            raise _fault_of(message["error"])
        if not isinstance(message.get("result"), dict):
            raise unusable("answered with neither a result nor an error")
        self.result = message["result"]
        self._state = _State.ANSWERED

    def _take_progress(self, params: Any) -> None:
        match params:
            case {"progressToken": token, "progress": int() | float() as value} if token == self.request_id:
                total, text = params.get("total"), params.get("message")
                self.on_progress(
                    Progress(
                        float(value),
                        float(total) if isinstance(total, (int, float)) else None,
                        clean_line(text) if isinstance(text, str) else "",
                    )
                )

    def _error_in_body(self) -> ProtocolFault | HttpFault:
        """The JSON-RPC error in the body of an HTTP error. Its id may be null: some requests are rejected unread."""
        try:
            message = _parse(bytes(self._body))
        except ProtocolFault:
            return self._status_fault()
        if isinstance(message, dict) and isinstance(message.get("error"), dict) and "jsonrpc" in message:
            return _fault_of(message["error"], self._status)
        return self._status_fault()

    def _status_fault(self) -> ProtocolFault | HttpFault:
        if self._status == 202:
            return unusable("accepted the request without an answer (202)")
        if 300 <= self._status < 400:
            return HttpFault(self._status, f"The tool server redirects ({self._status}), which is not followed.")
        return HttpFault(self._status, f"The tool server answered with the HTTP status {self._status}.")

    def _too_large(self) -> ProtocolFault:
        return unusable(f"sent an answer of more than {self.wire_bytes} bytes (tools.wire_bytes)")


def _parse(data: bytes) -> Any:
    try:
        return jsons.parse_array(data) if data[:1] == b"[" else jsons.parse_object(data)
    except InvalidRequest as error:
        raise unusable("sent a message that cannot be read as JSON") from error


def _fault_of(error: Any, status: int = 200) -> ProtocolFault:
    code = error.get("code") if isinstance(error, dict) else None
    text = error.get("message") if isinstance(error, dict) else None
    known = code if isinstance(code, int) and not isinstance(code, bool) and abs(code) < 2**31 else 0
    shown = clean_line(text) if isinstance(text, str) and text else "The tool server failed."
    return ProtocolFault(known, shown, status=status)
