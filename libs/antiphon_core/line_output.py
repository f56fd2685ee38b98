"""Outputs for lines of text: standard error, standard output, and a file that log rotation may move away.

1. `write` never waits for long: a pipe or a terminal that is not read costs WAIT_MS once in WAIT_INTERVAL_S.
2. A line that cannot be written raises OSError. The caller counts it, and the request goes on.
3. Nothing is buffered in the process, so a failed line is not written later, or again when the process ends.
4. A line goes to a file in one write, so that lines of several processes do not mix.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

STDOUT_FD, STDERR_FD = 1, 2
WAIT_MS = 100
WAIT_INTERVAL_S = 10.0
PIPE_BYTES = 1 << 20
"""The buffer that a pipe gets where the kernel allows it. It holds a burst of lines while the reader has no CPU."""

_OPEN_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
_OWNER_ONLY = 0o600


class LineOutput:
    """Writes lines to a file descriptor, which the caller owns. `now_s` is a monotonic clock."""

    def __init__(self, fd: int, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._fd = fd
        self._now_s = now_s
        self._may_wait_s = now_s()  # the time from which a write may wait
        self._is_torn = False  # the last line has no end, because it was written in part
        self._room = select.poll()
        self._room.register(fd, select.POLLOUT)
        # poll() promises room for PIPE_BUF bytes in a pipe: a larger write would wait for the reader.
        self._piece_bytes = sys.maxsize if _is_regular(fd) else select.PIPE_BUF
        with suppress(OSError, AttributeError):  # no pipe, over the user's limit, or not Linux
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def write(self, line: bytes) -> None:
        """Writes a line and its end. OSError: it was not written, or not to its end."""
        start = b"\n" if self._is_torn else b""
        rest = memoryview(start + line + b"\n")
        size = len(rest)
        try:
            while rest:
                self._require_room()
                rest = rest[os.write(self._fd, rest[: self._piece_bytes]) :]
        finally:
            written = size - len(rest)
            if written:
                self._is_torn = len(start) < written < size

    def _require_room(self) -> None:
        """Raises BlockingIOError if a write would wait. A closed pipe has room, and its write fails."""
        if self._room.poll(0):
            return
        now_s = self._now_s()
        if now_s >= self._may_wait_s:
            self._may_wait_s = now_s + WAIT_INTERVAL_S
            if self._room.poll(WAIT_MS):
                return
        raise BlockingIOError(errno.EAGAIN, "The reader of this pipe or terminal does not read")


class LineFile:
    """A file to which lines are appended. It may be moved away, deleted or replaced at any time: then a new one is
    created, which only its owner can read.

    While no new file can be created, lines go on to the one that was moved away. A FIFO needs a reader.
    """

    def __init__(self, path: Path) -> None:
        """OSError: the file cannot be opened."""
        self._path = path
        self._open()

    def write(self, line: bytes) -> None:
        """Appends a line. OSError: it was not written, or not to its end."""
        if not self._is_current():
            self._reopen()
        self._output.write(line)

    def close(self) -> None:
        os.close(self._fd)

    @property
    def mode(self) -> int:
        """The permission bits of the open file."""
        return stat.S_IMODE(os.fstat(self._fd).st_mode)

    def _open(self) -> None:
        self._fd = os.open(self._path, _OPEN_FLAGS, _OWNER_ONLY)
        self._identity = _identity(os.fstat(self._fd))
        self._output = LineOutput(self._fd)

    def _is_current(self) -> bool:
        try:
            return _identity(self._path.stat()) == self._identity
        except OSError:
            return False

    def _reopen(self) -> None:
        """Opens the file at the path. OSError: it cannot be opened, and lines in the open one would be lost."""
        before = self._fd
        try:
            self._open()
        except OSError:
            if os.fstat(before).st_nlink == 0:
                raise
            return
        os.close(before)


def open_standard_streams() -> None:
    """Opens the null device in place of each standard stream that was closed when the process began.

    Without this, the next file or socket gets the number of the closed stream, and log lines are written into it.
    """
    for fd in (0, STDOUT_FD, STDERR_FD):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest free number, which is `fd`


def _is_regular(fd: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:  # closed: every write fails
        return False


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
