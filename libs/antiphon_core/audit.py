"""The audit log: one line of JSON for each request, with its caller, tenant, action, result and the ids that it named.

1. A line has the time and the fields of `Action`, and no others: no content, no credentials, no headers.
2. An id or a tenant that is not well-formed is written as `?`, because a caller may send any text in its place.
3. Lines are appended to a file of their own, never to the other logs. The file may be moved away: it is opened again.
4. Without a file nothing is written, and a request costs one comparison.
5. A line that cannot be written is counted and reported, and its request goes on. Only where the operator requires the
   audit log, a request without a line of its start is rejected, before it has run.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, time
from typing import Any

from antiphon_core.config import SettingsError
from antiphon_core.errors import Unavailable
from antiphon_core.ids import is_tenant
from antiphon_core.jsons import dumps
from antiphon_core.line_output import LineFile
from antiphon_core.telemetry import metrics, remedies
from antiphon_core.telemetry.log_limit import LogLimit

STARTED = "started"
"""The result in the line of a request's start."""
IDS_MAX = 16
"""Ids in one line, at most; a request may name a thousand."""
LOST_LOG_INTERVAL_S = 60.0
_OTHERS = 0o007
_ID = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_FIELDS = (
    "id",
    "ids",
    "response_id",
    "session_id",
    "conversation_id",
    "item_id",
    "item_ids",
    "previous_response_id",
    "up_to_response_id",
    "new_session_id",
)
_PARTS = ("record", "fence", "turn", "appends")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Action:
    """One request and its result. `caller` is the id of an API key, the name of a credential or an address; empty if
    the caller is unknown. `action` is a route or the path of an RPC, `result` a status of HTTP or gRPC."""

    service: str
    caller: str
    peer: str
    tenant: str
    action: str
    ids: Sequence[str]
    result: str
    request_id: str


caller_now: ContextVar[tuple[str, str]] = ContextVar("audited_caller", default=("", ""))
"""The caller and the peer of the request that this task answers, where the audit log is on."""


class _AuditLog:
    """The open file of the audit log, and the limit of the lines that report its losses."""

    def __init__(self, file: LineFile, *, is_required: bool) -> None:
        self.file = file
        self.is_required = is_required
        self._lost_limit = LogLimit(LOST_LOG_INTERVAL_S)

    def write(self, action: Action) -> bool:
        """Writes a line. Returns False, with the loss counted and reported, if it cannot be written."""
        try:
            self.file.write(_line_of(action))
        except OSError as error:
            metrics.AUDIT_LINES_LOST.of().add()
            if count := self._lost_limit.count(monotonic()):
                log.error("%d lines of the audit log were lost: %s", count, error, extra=remedies.CHECK_AUDIT_LOG)
            return False
        return True


_open: list[_AuditLog] = []
"""The audit log, if there is one."""


def configure(path: Path | None, *, is_required: bool = False) -> None:
    """Appends lines to this file from now on; None turns the audit log off. With `is_required`, `require` checks that
    the start of each request can be recorded. SettingsError: the file cannot be opened."""
    while _open:
        _open.pop().file.close()
    if path is None:
        return
    try:
        file = LineFile(path)
    except OSError as error:
        raise SettingsError(f"Cannot open the audit log {path}: {error.strerror}.") from error
    if file.mode & _OTHERS:
        log.warning("all users of this machine can read or write the audit log %s; chmod 600 prevents that", path)
    _open.append(_AuditLog(file, is_required=is_required))


def is_on() -> bool:
    return bool(_open)


def is_required() -> bool:
    """Whether requests whose start cannot be recorded are rejected."""
    return bool(_open) and _open[0].is_required


def note(action: Action) -> None:
    """Writes one line, if the audit log is on. Never raises."""
    if is_on():
        _open[0].write(action)


def require(action: Action) -> None:
    """Writes the line of a request's start, with the result STARTED, if the audit log is required. Unavailable: it
    cannot be written."""
    if is_required() and not _open[0].write(action):
        raise Unavailable(
            "This server records each request in its audit log before it runs, and the audit log cannot be written "
            "now. Nothing was run or stored: send the request again later.",
            code="audit_unavailable",
        )


def ids_in(message: Any) -> list[str]:
    """The first IDS_MAX ids in the message of a gRPC request, found by the names of their fields."""
    return list(_ids_in(message))[:IDS_MAX]


def _line_of(action: Action) -> bytes:
    tenant = action.tenant if not action.tenant or is_tenant(action.tenant) else "?"
    fields = asdict(action) | {"tenant": tenant, "ids": [_shorten(each) for each in action.ids[:IDS_MAX]]}
    return dumps({"ts": round(time(), 3), **fields})


def _ids_in(message: Any) -> Iterator[str]:
    for name in _FIELDS:
        value = getattr(message, name, None)
        yield from [value] if isinstance(value, str) and value else () if isinstance(value, str) else value or ()
    for name in _PARTS:
        part = getattr(message, name, None)
        for each in part if name == "appends" and part is not None else [part]:
            if each is not None:
                yield from _ids_in(each)


def _shorten(given: str) -> str:
    return given if _ID.fullmatch(given) else "?"
