"""Values from files that change while a process runs: secrets and certificates that are rotated.

A value is read at the start and again after its files changed, looked at once a second at most, by whoever uses it. A
file that is broken or gone after the start changes nothing but the log: a half-done rotation must not lock anybody out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from antiphon_core.config import SettingsError
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 1.0

Value = TypeVar("Value")


class Watched(Generic[Value]):
    """The value that `read` makes of `paths`, as of a second ago.

    `read` raises SettingsError for files that will not do, with a message that holds nothing of what is secret in them.
    At the start that error passes; later it is logged and the last value stays.
    """

    def __init__(
        self, paths: Sequence[Path], read: Callable[[], Value], *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._paths = paths
        self._read = read
        self._now_s = now_s
        self._seen = self._stamps()  # before the reading: what changes in between is read again
        self._value = read()
        self._look_at_s = now_s() + LOOK_INTERVAL_S

    def get(self) -> Value:
        if self._now_s() >= self._look_at_s:
            self._look()
        return self._value

    def _look(self) -> None:
        self._look_at_s = self._now_s() + LOOK_INTERVAL_S
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        names = ", ".join(map(str, self._paths))
        try:
            self._value = self._read()
        except SettingsError as error:
            log.error(
                "%s changed and cannot be used, what was read before stays: %s", names, error, extra=remedies.CHECK_FILE
            )
        else:
            log.info("%s changed and was read again", names)

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """A stamp that differs after a file was written or replaced. Kubernetes replaces the target of a symbolic link."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def read_text(path: Path, what: str) -> str:
    """The text of a file; SettingsError names `what` it should have held."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"Cannot read {what} {path}: {reason}.") from error
