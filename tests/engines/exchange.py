"""One request over a socket of its own, and the answer byte for byte, with its head and its chunks."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.engines.cases import Body
from tests.support.waiting import WAIT_MAX_S

_EVENT = re.compile(rb"^data: (\{.*\})$", re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    """A recorded answer."""

    raw: bytes

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1])

    @property
    def body(self) -> bytes:
        """The answer without its head and the frames of its chunks."""
        head, _, rest = self.raw.partition(b"\r\n\r\n")
        return _without_chunks(rest) if b"transfer-encoding: chunked" in head.lower() else rest

    def shape(self) -> Mapping[str, object]:
        """The status, and the names and types of all members, which sampled text, ids and times do not change."""
        documents = _EVENT.findall(self.body) or [self.body]
        return {"status": self.status, "members": sorted({each for one in documents for each in _members(one)})}


def ask(port: int, body: Body) -> Answer:
    """Asks the server at this port of the loopback, and reads until it closes the connection."""
    with connected(port, body) as client:
        raw = b""
        while piece := client.recv(65536):
            raw += piece
    return Answer(raw)


def connected(port: int, body: Body) -> socket.socket:
    """A connection that the request was sent over."""
    content = json.dumps(body).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    client = socket.create_connection(("127.0.0.1", port), timeout=WAIT_MAX_S)
    client.sendall(head.encode() + content)
    return client


def _without_chunks(rest: bytes) -> bytes:
    body = b""
    while rest:
        length, _, rest = rest.partition(b"\r\n")
        size = int(length, 16)
        body, rest = body + rest[:size], rest[size + 2 :]
    return body


def _members(document: bytes) -> list[str]:
    return list(_paths("", json.loads(document)))


def _paths(path: str, value: Any) -> set[str]:
    """The path of each value with its type. Numbers are one type: JSON has 0 for 0.0."""
    if isinstance(value, dict):
        return {found for name, each in value.items() for found in _paths(f"{path}.{name}", each)}
    if isinstance(value, list):
        return {f"{path}: list"} | {found for each in value for found in _paths(f"{path}[]", each)}
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {f"{path}: {'number' if is_number else type(value).__name__}"}
