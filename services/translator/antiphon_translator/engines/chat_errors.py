"""The errors of chat completions servers: which are about the request, and which about the server.

A server that refuses the request (400, 422) would refuse it again, so its reason goes to the caller as a 400. Every
other answer is told in our words. Addresses, paths and stack traces never leave: the whole answer goes to the log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from antiphon_core.errors import (
    AntiphonError,
    ContextLengthExceeded,
    EngineFault,
    EngineOverloaded,
    EngineTimeout,
    EngineUnavailable,
    InvalidRequest,
)
from antiphon_core.jsons import loads
from antiphon_translator.engines import guide_errors

log = logging.getLogger(__name__)

REASON_CHARS_MAX = 500
RETRY_AFTER_MS_MAX = 3_600_000
_LABEL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_REFUSALS = (400, 413, 422)
_BY_STATUS: Mapping[int, tuple[type[AntiphonError], str]] = {
    401: (EngineUnavailable, "refuses the API key"),
    403: (EngineUnavailable, "refuses the API key"),
    404: (EngineUnavailable, "has no such model"),
    408: (EngineTimeout, "did not answer in time"),
    429: (EngineOverloaded, "is overloaded"),
    502: (EngineUnavailable, "cannot be reached"),
    503: (EngineUnavailable, "is not ready"),
    504: (EngineTimeout, "did not answer in time"),
}
_SAY_WHEN = (EngineOverloaded, EngineUnavailable)
"""What passes: the caller is told the server's own time to come back."""
_TOO_LONG = re.compile(
    r"(?:maximum|available|model'?s?) context (?:length|size|window)|context_length_exceeded|exceed_context_size"
    r"|longer than the (?:maximum )?(?:model|context) length|exceeds? (?:the )?(?:max_model_len|context)"
    r"|max_tokens must be at least 1, got -"
)
"""How vLLM, SGLang, llama.cpp, NIM and OpenAI say that a prompt is too long; compared in lower case."""

_TRACE = re.compile(r"Traceback \(most recent call last\)|\n\s*(?:File \"|at )|^\s*File \"")
_ADDRESS = re.compile(
    r"[a-z][a-z0-9+.-]*://\S+"  # URLs
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\[[0-9a-f:]*::?[0-9a-f:]*\](?::\d+)?"  # IP addresses
    r"|\b(?:localhost|[\w-]+(?:\.[\w-]+)+):\d{2,5}\b"  # hosts with a port
    r"|(?<![\w<])(?:/[\w.+-]+){2,}|\b0x[0-9a-f]{6,}\b",  # paths, places in memory
    re.IGNORECASE,
)
_REMOVED = "[...]"


def parsed(body: bytes) -> object:
    """The body of an answer as JSON, or else as text."""
    try:
        return loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")


def of_answer(
    told: object, *, status: int, server: str, model: str, url: str, retry_after: str | None = None
) -> AntiphonError:
    """The error that an answer with this status stands for, or an event of a stream, whose status is 200. `server` is
    what callers know the server as, `url` its address, which they must not learn."""
    error = _error_in(told)
    log.warning("model '%s': the server reports: %d %s", model, status, _labels(error, told))
    if (refusal := guide_errors.of_text(str(told), server=server)) is not None:
        return refusal
    code = error.get("code")
    meant = code if status == 200 and isinstance(code, int) else status
    reason = readable(_reason(error, told), url)
    if _TOO_LONG.search(f"{code} {error.get('type')} {_reason(error, told)}".lower()):
        return ContextLengthExceeded(f"{server} refuses the request: {reason}", field="input")
    if meant in _REFUSALS:
        return InvalidRequest(f"{server} refuses the request: {reason}", code="engine_refused")
    kind, what = _BY_STATUS.get(meant, (EngineFault, "reported an error"))
    wait_ms = _milliseconds(retry_after) if kind in _SAY_WHEN else None
    return kind(f"{server} {what}.", retry_after_ms=wait_ms)


def _labels(error: Mapping[str, Any], told: object) -> str:
    """What an error may be logged as: its code and type. Its text repeats the prompt on some servers."""
    words = [f"{name} {error[name]}" for name in ("code", "type") if _LABEL.fullmatch(str(error.get(name, "")))]
    return ", ".join(words) or f"{len(str(told))} characters that are not logged"


def readable(reason: str, url: str) -> str:
    """A server's words without addresses, paths and stack traces, and not much longer than a sentence or two."""
    reason = _TRACE.split(reason, maxsplit=1)[0]
    host = urlsplit(url).netloc
    for name in filter(None, (host, host.rpartition(":")[0])):
        reason = reason.replace(name, _REMOVED)
    reason = " ".join(_ADDRESS.sub(_REMOVED, reason).split())
    if len(reason) > REASON_CHARS_MAX:
        reason = reason[:REASON_CHARS_MAX] + "..."
    return reason or "it gives no reason."


def _error_in(told: object) -> Mapping[str, Any]:
    """The object that has code and message: the answer itself, or its `error`."""
    if not isinstance(told, dict):
        return {}
    inner = told.get("error")
    return inner if isinstance(inner, dict) else told


def _reason(error: Mapping[str, Any], told: object) -> str:
    """The reason in words; FastAPI lists mistakes in `detail`."""
    for found in (error.get("message"), error.get("detail"), error.get("error"), told):
        if isinstance(found, str):
            return found
        if isinstance(found, list):
            return "; ".join(str(each.get("msg", "")) for each in found if isinstance(each, dict))
    return ""


def _milliseconds(retry_after: str | None) -> int | None:
    """How long to wait by a header Retry-After. A date, as some proxies send, is not taken: clocks differ."""
    try:
        wait_ms = round(float(retry_after or "") * 1000)
    except (ValueError, OverflowError):
        return None
    return min(wait_ms, RETRY_AFTER_MS_MAX) if wait_ms > 0 else None
