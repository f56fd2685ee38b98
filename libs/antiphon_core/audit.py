"""The audit log: one line of JSON for each request, with its caller, tenant, action, result and the ids that it named.

1. A line has the time and the fields of `Action`, and no others: no content, no credentials, no headers.
2. An id or a tenant that is not well-formed is written as `?`, because a caller may send any text in its place.
3. Lines are appended to a file of their own, never to the other logs. The file may be moved away: it is opened again.
4. Without a file nothing is written, and a request costs one comparison.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from logging.handlers import WatchedFileHandler
from pathlib import Path
from time import time
from typing import Any

from antiphon_core.config import SettingsError
from antiphon_core.ids import is_tenant
from antiphon_core.jsons import dumps
from antiphon_core.telemetry import remedies

LOGGER = "antiphon.audit"
IDS_MAX = 16
"""Ids in one line, at most; a request may name a thousand."""
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
_log = logging.getLogger(LOGGER)
log = logging.getLogger(__name__)
_open: list[logging.Handler] = []
"""The handler of the file, if there is one."""


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


class _File(WatchedFileHandler):
    """The file of the audit log. A line that cannot be written is dropped and reported in the other logs, so that no
    request waits for a full disk."""

    def handleError(self, record: logging.LogRecord) -> None:
        log.error("a line of the audit log could not be written: %s", sys.exc_info()[1], extra=remedies.CHECK_FILE)


def configure(path: Path | None) -> None:
    """Appends lines to this file from now on; None turns the audit log off. SettingsError: it cannot be opened."""
    while _open:
        file = _open.pop()
        _log.removeHandler(file)
        with suppress(OSError):  # a full disk, which lost the lines that were still buffered
            file.close()
    if path is None:
        return
    try:
        file = _File(path, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"Cannot open the audit log {path}: {error.strerror}.") from error
    file.setFormatter(logging.Formatter("%(message)s"))
    _log.addHandler(file)
    _log.setLevel(logging.INFO)
    _log.propagate = False
    _open.append(file)


def is_on() -> bool:
    return bool(_open)


def note(action: Action) -> None:
    """Writes one line, if the audit log is on."""
    if is_on():
        tenant = action.tenant if not action.tenant or is_tenant(action.tenant) else "?"
        fields = asdict(action) | {"tenant": tenant, "ids": [_shown(each) for each in action.ids[:IDS_MAX]]}
        _log.info(dumps({"ts": round(time(), 3), **fields}).decode())


def ids_in(message: Any) -> list[str]:
    """The first IDS_MAX ids in the message of a gRPC request, found by the names of their fields."""
    return list(_ids_in(message))[:IDS_MAX]


def _ids_in(message: Any) -> Iterator[str]:
    for name in _FIELDS:
        value = getattr(message, name, None)
        yield from [value] if isinstance(value, str) and value else () if isinstance(value, str) else value or ()
    for name in _PARTS:
        part = getattr(message, name, None)
        for each in part if name == "appends" and part is not None else [part]:
            if each is not None:
                yield from _ids_in(each)


def _shown(given: str) -> str:
    return given if _ID.fullmatch(given) else "?"
