"""Starts, watches and stops one run of a server process and its child processes.

The processes are addressed by process id and by the process group that the server leads. If this program is killed, the
kernel kills the server (antiphon_core/orphan_guard.py), and Triton's stub processes end within seconds.
"""

import asyncio
import contextlib
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from antiphon_core import orphan_guard
from antiphon_local_triton.triton import TritonCommand

ORPHAN_GUARD = Path(orphan_guard.__file__)
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where the kernel keeps shared memory
KILL_S_MAX = 5.0  # usually the kernel takes milliseconds to end a killed process
LOG_BYTES_MAX = 8 * 1024 * 1024
"""A larger log is renamed before the next start; one older log is kept."""


_GONE = "ZX"  # the states zombie and dead, of a process that has ended


class _Stat(NamedTuple):
    state: str
    group: int


class ServerProcess:
    """A started server. Create it with `start`; it belongs to the event loop that started it."""

    def __init__(self, process: asyncio.subprocess.Process, log_start_bytes: int = 0) -> None:
        self._process = process
        self.log_start_bytes = log_start_bytes
        """The size of the log when this run began."""

    @classmethod
    async def start(cls, command: TritonCommand, log_path: Path) -> "ServerProcess":
        """Starts the command in a process group of its own, its output appended to the log. Raises OSError."""
        _rotate(log_path)
        with log_path.open("ab") as log:
            log_start_bytes = log.tell()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", str(ORPHAN_GUARD), str(os.getpid()), *command.argv),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                env=dict(command.environment),
                start_new_session=True,
            )
        return cls(process, log_start_bytes)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the server runs, negative for a signal."""
        return self._process.returncode

    def child_ended(self) -> asyncio.Future[int]:
        """Watches the children that the server has now, which are Triton's stubs. The result is the process id of the
        first that ends. There is none if the kernel does not list children, or does not let us watch them."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()
        for pid in self._children():
            try:
                handle = os.pidfd_open(pid)
            except ProcessLookupError:
                _resolve(ended, pid)
            except OSError:
                continue
            else:
                loop.add_reader(handle, _resolve, ended, pid)  # readable as soon as the process has ended
                ended.add_done_callback(partial(_close, loop, handle))
        return ended

    def _children(self) -> frozenset[int]:
        found: set[int] = set()
        for listing in Path(f"/proc/{self.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found.update(map(int, listing.read_text().split()))
        return frozenset(pid for pid in found if _stat(pid).state not in _GONE)

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the server's end, for at most `timeout_s` if given. Returns whether it has ended."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._process.wait()
        except TimeoutError:
            return False
        return True

    async def stop(self, grace_s: float) -> None:
        """Sends SIGTERM and waits for at most `grace_s` (with 0 it does neither), then kills the rest of the process
        group and waits for its end. Can be called again."""
        if self.exit_code is None and grace_s > 0:
            self._process.terminate()
            await self.wait(grace_s)
        self._kill_group()
        await self._process.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KILL_S_MAX):
                while _is_alive(self.pid):  # noqa: ASYNC110 - the kernel does not report the end of a grandchild
                    await asyncio.sleep(0.01)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def remove_shared_memory(prefix: str) -> None:
    """Removes the shared-memory regions whose names start with `prefix`, which a killed run leaves behind."""
    if not SHARED_MEMORY.is_dir():
        return
    for region in SHARED_MEMORY.iterdir():
        if region.name.startswith(prefix):
            region.unlink(missing_ok=True)


def _resolve(ended: asyncio.Future[int], pid: int) -> None:
    if not ended.done():
        ended.set_result(pid)


def _close(loop: asyncio.AbstractEventLoop, handle: int, _ended: asyncio.Future[int]) -> None:
    loop.remove_reader(handle)
    os.close(handle)


def _is_alive(group: int) -> bool:
    """Whether a process of a process group still runs, even one whose parent has ended."""
    pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return any(each.group == group and each.state not in _GONE for each in map(_stat, pids))


def _stat(pid: int) -> _Stat:
    try:
        state, _parent, group = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:3]
    except OSError:
        return _Stat("X", 0)
    return _Stat(state, int(group))


def _rotate(log_path: Path) -> None:
    log_path.parent.mkdir(parents=True, exist_ok=True)
    if log_path.exists() and log_path.stat().st_size > LOG_BYTES_MAX:
        log_path.replace(log_path.with_suffix(".old.log"))
