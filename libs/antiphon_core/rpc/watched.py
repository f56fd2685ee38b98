"""Values from files that are read again when they change: secrets and certificates that are rotated.

`Watched.get` looks for changes, at most once a second. If a file becomes unusable while the process runs, its last
value stays valid for a grace period, so that an unfinished rotation locks nobody out. After that, secrets that
authenticate callers fail closed: an emptied file must not leave the old keys valid.
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
"""The time for which the last value of an unusable file stays valid; a rotation takes seconds."""
_LOOSE = 0o027  # any permission of others, and write permission of the group
_CHANGED_BY_OTHERS = 0o022  # write permission of others or the group

Value = TypeVar("Value")


class Watched(Generic[Value]):
    """The value that `read` makes of the files at `paths`, at most a second old.

    `read` raises SettingsError for unusable files, with a message that has no secrets. The constructor passes this
    error on. Later it is logged, and the last value stays valid for `grace_s`, or for ever by default. With a `setting`
    the metric antiphon_secrets_unusable is 1 meanwhile, with the setting's name as label.
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
        self._seen = self._stamps()  # before the reading, so that a change in between is noticed
        self._value = read()
        self._look_at_s = now_s() + LOOK_INTERVAL_S

    def get(self) -> Value:
        """The current value. Unavailable: the files have been unusable for longer than the grace period."""
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
            message = "%s changed and cannot be used, the last content stays valid%s: %s"
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
    """A value that changes when a file is written or replaced, or when its mode changes. It follows symbolic links, of
    which Kubernetes replaces the target."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode


def read_text(path: Path, what: str) -> str:
    """Reads a text file. SettingsError: it cannot be read; the message names `what` it should have."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"Cannot read {what} {path}: {reason}.") from error


def read_secret(path: Path, what: str, *, may_be_read: bool = False) -> str:
    """Reads a text file that only its owner may write and only its owner and group may read; with `may_be_read`
    everybody may read it. SettingsError: its mode allows more, or it cannot be read."""
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
