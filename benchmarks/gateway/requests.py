"""Requests as bytes, for a Responses server or for the engine itself."""

from __future__ import annotations

from antiphon_core.jsons import Object, dumps
from benchmarks.gateway.subjects import Route, Subject

PACE_MS = 20
_PACED = f"Say a word every {PACE_MS} ms."
_RESPONSES_MARKER = b'"response.output_text.delta"'
_CHAT_MARKER = b'"content":" word'


def marker_of(subject: Subject) -> bytes:
    """Returns a text that is in each delta exactly once."""
    return _CHAT_MARKER if subject.is_engine else _RESPONSES_MARKER


def turn(
    subject: Subject,
    route: Route,
    tokens: int,
    *,
    text: str = "Tell me a story.",
    is_paced: bool = False,
    previous: str | None = None,
    background: bool = False,
) -> bytes:
    """Returns a request for a stream of so many tokens. A background request is not streamed."""
    if is_paced and route is Route.IDS:
        route = Route.PACED_IDS
    said = f"{text} {_PACED}" if is_paced and route is Route.CHAT else text
    model = subject.name_of(route)
    if subject.is_engine:
        chat: Object = {"messages": [{"role": "user", "content": said}], "max_tokens": tokens}
        return _post(subject, {"model": model, "stream": True} | chat)
    body: Object = {"model": model, "input": said, "stream": not background, "max_output_tokens": tokens}
    if previous is not None:
        body["previous_response_id"] = previous
    if background:
        body["background"] = True
    return _post(subject, body)


def _post(subject: Subject, body: Object) -> bytes:
    data = dumps(body)
    return _head("POST", subject, subject.path) + b"Content-Length: %d\r\n\r\n" % len(data) + data


def get(subject: Subject, path: str) -> bytes:
    return _head("GET", subject, path) + b"\r\n"


def _head(method: str, subject: Subject, path: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {subject.host}:{subject.port}", "Content-Type: application/json"]
    return "".join(f"{line}\r\n" for line in lines).encode()
