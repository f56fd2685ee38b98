"""Values from files that change while a process runs: secrets and certificates that are rotated.

A value is read at the start and again after its files changed, looked at once a second at most, by its users. A file
that is broken or gone after the start changes nothing for a while: a half-done rotation must not lock anybody out. What
decides who is let in fails closed after that grace: an emptied file must not leave the old keys valid.
"""

from __future__ import annotations

import logging
import math
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from antiphon_core.config import SettingsError
from antiphon_core.errors import Unavailable
from antiphon_core.telemetry import metrics, remedies

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 1.0
GRACE_S = 60.0
"""How long a file may be unusable before what depends on it fails closed: rotations take seconds."""
_LOOSE = 0o027  # whatever others may do, and that the group may write
_CHANGED_BY_OTHERS = 0o022

Value = TypeVar("Value")


class Watched(Generic[Value]):
    """The value that `read` makes of `paths`, as of a second ago.

    `read` raises SettingsError for files that will not do, with a message that holds nothing of what is secret in them.
    At the start that error passes. Later it is logged and the last value stays: for `grace_s`, or for ever without it.
    The metric antiphon_secrets_unusable says so under the name of the setting.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        read: Callable[[], Value],
        *,
        setting: str = "",
        grace_s: float = math.inf,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._paths = paths
        self._read = read
        self._setting = setting
        self._grace_s = grace_s
        self._unusable_since_s: float | None = None
        self._now_s = now_s
        self._seen = self._stamps()  # before the reading: what changes in between is read again
        self._value = read()
        self._look_at_s = now_s() + LOOK_INTERVAL_S

    def get(self) -> Value:
        """Unavailable: the files have been unusable for longer than the grace."""
        if self._now_s() >= self._look_at_s:
            self._look()
        since_s = self._unusable_since_s
        if since_s is not None and self._now_s() >= since_s + self._grace_s:
            raise Unavailable("The server cannot check credentials at the moment. Its log says why.")
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
            self._note(self._now_s() if self._unusable_since_s is None else self._unusable_since_s)
            stays = "" if self._grace_s == math.inf else f" for {self._grace_s:g} s"
            message = "%s changed and cannot be used, what was read before stays%s: %s"
            log.error(message, names, stays, error, extra=remedies.CHECK_FILE)
        else:
            self._note(None)
            log.info("%s changed and was read again", names)

    def _note(self, unusable_since_s: float | None) -> None:
        self._unusable_since_s = unusable_since_s
        if self._setting:
            metrics.SECRETS_UNUSABLE.of(self._setting).set(int(unusable_since_s is not None))

    def _stamps(self) -> list[tuple[int, ...] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, ...] | None:
    """A stamp that differs after a file was written, replaced or opened to others. Kubernetes replaces the target of a
    symbolic link."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode


def read_text(path: Path, what: str) -> str:
    """The text of a file; SettingsError names `what` it should have held."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"Cannot read {what} {path}: {reason}.") from error


def read_secret(path: Path, what: str, *, may_be_read: bool = False) -> str:
    """Text of a file that only its owner and group may read and only its owner may change. SettingsError: others
    may, too, or it cannot be read. With `may_be_read` everybody may read it."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise SettingsError(f"Cannot read {what} {path}: {error.strerror}.") from error
    if mode & (_CHANGED_BY_OTHERS if may_be_read else _LOOSE):
        raise SettingsError(
            f"{path} holds {what}, and other users of this machine may read or change it (mode {mode:04o}). "
            "Make its mode 0600, or 0440 for a group."
        )
    return read_text(path, what)
