"""Translates the errors of model servers over HTTP: errors of the request, and errors of the server.

A request that a server rejects (400, 413, 422) would be rejected again, so the client gets a 400 with the server's
reason, without credentials, addresses, paths and stack traces. A prompt that is too long, a guide that the server
cannot use, or media that its model cannot see or hear is recognized by the text of the error, whatever the status. For
every other error the client gets a message of our own. A server that does not know the API key, the model or the URL
has to be corrected by an operator: a retry of the client would only repeat the error for minutes, so its error says so,
and the log says what to compare.
The log gets only the error's code and type, because the text of an error may repeat the prompt.
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
    EngineMisconfigured,
    EngineOverloaded,
    EngineTimeout,
    EngineUnavailable,
    InvalidRequest,
)
from antiphon_core.jsons import loads
from antiphon_core.limits import ENGINE_ERROR_CHARS_MAX
from antiphon_core.telemetry import remedies
from antiphon_translator.engines import guide_errors, length_errors, secret_texts

log = logging.getLogger(__name__)

REASON_CHARS_MAX = 500
BEGINNING_CHARS_MAX = 80
RETRY_AFTER_MS_MAX = 3_600_000
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,260}")
_LABEL = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_REJECTIONS = (400, 413, 422)
# llama.cpp answers 500, vLLM 400 (tests/golden/engines).
_NO_SUCH_MEDIA = re.compile(
    r"\b(?:image|audio|video) input is not supported|\bis not a multimodal model", re.IGNORECASE
)
_BY_STATUS: Mapping[int, tuple[type[AntiphonError], str]] = {
    401: (EngineMisconfigured, "rejects the API key"),
    402: (EngineMisconfigured, "asks for a payment"),
    403: (EngineMisconfigured, "rejects the API key"),
    404: (EngineMisconfigured, "has no such model, or no such URL"),
    405: (EngineMisconfigured, "has no such URL"),
    408: (EngineTimeout, "did not answer in time"),
    429: (EngineOverloaded, "is overloaded"),
    502: (EngineUnavailable, "cannot be reached"),
    503: (EngineUnavailable, "is not ready"),
    504: (EngineTimeout, "did not answer in time"),
    529: (EngineOverloaded, "is overloaded"),
}
_TEMPORARY = (EngineOverloaded, EngineUnavailable)
"""The errors with which the client gets the server's own Retry-After."""
# These patterns take linear time for any text: a match begins only where nothing before it could belong to it.
_TRACE = re.compile(r"Traceback \(most recent call last\)|\n[^\S\n]*(?:File \"|at )|^\s*File \"")
_ADDRESS = re.compile(
    r"(?<![a-z0-9+.-])[a-z0-9+.-]+://\S+"  # URLs
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\[[0-9a-f]*:[0-9a-f:]*\](?::\d+)?"  # IP addresses
    r"|(?<![\w.-])\.*(?:localhost|[\w-]+(?:\.+[\w-]+)+):\d{2,5}\b"  # hosts with a port
    r"|(?<![\w<])(?:/[\w.+-]+){2,}|\b0x[0-9a-f]{6,}\b",  # paths, memory addresses
    re.IGNORECASE,
)
_REMOVED = "[...]"


def parse_error(body: bytes) -> object:
    """The body of an answer as JSON, or else as text. Gemini sends its error in a list."""
    try:
        answer = loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")
    return answer[0] if isinstance(answer, list) and len(answer) == 1 else answer


def of_answer(
    answer: object, *, status: int, server: str, model: str, url: str, retry_after: str | None = None
) -> AntiphonError:
    """The error that a server's answer stands for. For an error in an event of a stream `status` is 200, and a number
    as its `code` counts as the status. `server` names the server in messages to clients, which never show its `url`."""
    error = _error_in(answer)
    log.warning("model '%s': the server reports: %d %s", model, status, _labels(error, answer))
    if (guide_error := guide_errors.of_text(str(answer)[:ENGINE_ERROR_CHARS_MAX], server=server)) is not None:
        return guide_error
    code = error.get("code")
    actual = code if status == 200 and isinstance(code, int) else status
    given = _reason(error, answer)[:ENGINE_ERROR_CHARS_MAX]
    reason = readable(given, url)
    if length_errors.is_in(f"{code} {error.get('type')} {given}"):
        return ContextLengthExceeded(f"{server} rejects the request: {reason}", field="input")
    if actual in _REJECTIONS or _NO_SUCH_MEDIA.search(given):
        return InvalidRequest(f"{server} rejects the request: {reason}", code="engine_refused")
    kind, what = _BY_STATUS.get(actual, (EngineFault, "reported an error"))
    if kind is EngineMisconfigured:
        return misconfigured_error(f"{server} {what}", model=model)
    wait_ms = _milliseconds(retry_after) if kind in _TEMPORARY else None
    return kind(f"{server} {what}.", retry_after_ms=wait_ms)


def misconfigured_error(finding: str, *, model: str) -> EngineMisconfigured:
    """The error of a server that does not fit its model's profile. Logs the finding, a sentence without its period."""
    log.error("model '%s': %s", model, finding, extra=remedies.CHECK_PROFILE)
    return EngineMisconfigured(f"{finding}. Only an operator of this service can correct that.")


def redirect_error(location: str, *, server: str, model: str) -> EngineMisconfigured:
    """The error of a server that redirects to `location`, to which no prompt and no key are sent. Only the log names
    its host, for operators."""
    log.error("model '%s': the server redirects to the host %s", model, _host_of(location), extra=remedies.SET_ENDPOINT)
    return EngineMisconfigured(
        f"{server} redirects to another URL, which is not followed. An operator of this service can set the URL of "
        "that server as the endpoint of the model."
    )


def _host_of(location: str) -> str:
    """The host of a Location header, with its port. It may be any text."""
    try:
        host = urlsplit(location).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    return host if _HOST.fullmatch(host) else "that answered, or to none"


def _labels(error: Mapping[str, Any], answer: object) -> str:
    """The loggable part of an error: its code and type."""
    words = [f"{name} {error[name]}" for name in ("code", "type") if _LABEL.fullmatch(str(error.get(name, "")))]
    return secret_texts.mask_secrets(", ".join(words)) or f"{len(str(answer))} characters that are not logged"


def readable(reason: str, url: str) -> str:
    """A server's reason without credentials, addresses, paths and stack traces, cut to REASON_CHARS_MAX characters."""
    reason = secret_texts.mask_secrets(_TRACE.split(reason, maxsplit=1)[0])
    host = urlsplit(url).netloc
    for name in filter(None, (host, host.rpartition(":")[0])):
        reason = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", _REMOVED, reason)  # not `nim` in "minimum"
    reason = " ".join(_ADDRESS.sub(_REMOVED, reason).split())
    if len(reason) > REASON_CHARS_MAX:
        reason = reason[:REASON_CHARS_MAX] + "..."
    return reason or "it gives no reason."


def beginning(body: bytes, url: str) -> str:
    """The first BEGINNING_CHARS_MAX characters of an unexpected body, on one line, without addresses and paths. Of a
    JSON object only the names of its members: its values may be the model's answer."""
    answer = parse_error(body)
    if isinstance(answer, dict):
        return readable(f"an object with {', '.join(map(str, answer)) or 'no members'}", url)[:BEGINNING_CHARS_MAX]
    text = body[: 4 * BEGINNING_CHARS_MAX].decode("utf-8", "replace")
    return repr(readable(text, url)[:BEGINNING_CHARS_MAX])


def _error_in(answer: object) -> Mapping[str, Any]:
    """The object that has code and message: the answer itself, or its `error`."""
    if not isinstance(answer, dict):
        return {}
    inner = answer.get("error")
    return inner if isinstance(inner, dict) else answer


def _reason(error: Mapping[str, Any], answer: object) -> str:
    """The text of the error. FastAPI lists validation errors in `detail`."""
    for found in (error.get("message"), error.get("detail"), error.get("error"), answer):
        if isinstance(found, str):
            return found
        if isinstance(found, list):
            return "; ".join(str(each.get("msg", "")) for each in found if isinstance(each, dict))
    return ""


def _milliseconds(retry_after: str | None) -> int | None:
    """The milliseconds that a Retry-After header asks for. A date, as some proxies send, is ignored: clocks differ."""
    try:
        wait_ms = round(float(retry_after or "") * 1000)
    except (ValueError, OverflowError):
        return None
    return min(wait_ms, RETRY_AFTER_MS_MAX) if wait_ms > 0 else None
