"""The audit log: a line of JSON for each request, with its caller, tenant, action, the ids that it named and its
result.

Rules that hold here:

1. A line has the fields of `Action` and the time, and no others. No content, no credential, no header comes into it.
2. An id is written only in the form of one; the rest is written as `?`: a caller may put any text where an id belongs.
3. Lines are appended to a file of their own, never to the other logs. It is opened anew after it was moved away.
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
from antiphon_core.jsons import dumps
from antiphon_core.telemetry import remedies

LOGGER = "antiphon.audit"
IDS_MAX = 16
"""Ids in one line; a request may name a thousand."""
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
"""The file that is written, if there is one."""


@dataclass(frozen=True, slots=True)
class Action:
    """One request, and what came of it. `caller` is a key's id, a credential's name or an address, and empty where the
    caller is not known; `action` is a route or the path of an RPC, `result` a status of HTTP or gRPC."""

    service: str
    caller: str
    peer: str
    tenant: str
    action: str
    ids: Sequence[str]
    result: str
    request_id: str


class _File(WatchedFileHandler):
    """A line that cannot be written is lost, and the other logs say so: no request waits for a full disk."""

    def handleError(self, record: logging.LogRecord) -> None:
        log.error("a line of the audit log could not be written: %s", sys.exc_info()[1], extra=remedies.CHECK_FILE)


def configure(path: Path | None) -> None:
    """From now on lines are appended to this file; None writes none. SettingsError: it cannot be opened."""
    while _open:
        file = _open.pop()
        _log.removeHandler(file)
        with suppress(OSError):  # what a full disk did not take
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
    """Writes one line."""
    if is_on():
        told = asdict(action) | {"ids": [_shown(each) for each in action.ids[:IDS_MAX]]}
        _log.info(dumps({"ts": round(time(), 3), **told}).decode())


def ids_in(message: Any) -> list[str]:
    """The ids that a request of gRPC names, by the names of its fields."""
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
