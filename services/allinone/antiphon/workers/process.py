"""The supervisor's handle of one worker process. The kernel kills the process when the supervisor dies, even by SIGKILL
(orphan_guard.py)."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

from antiphon.workers.messages import Assignment, Failed, Ready, parse_report
from antiphon_core import orphan_guard

_REPORT_BYTES_MAX = 2**20  # a report may have a traceback


class WorkerProcess:
    """A started process. It belongs to the event loop that started it."""

    def __init__(self, number: int, process: asyncio.subprocess.Process) -> None:
        self.number = number
        self._process = process

    @classmethod
    async def start(cls, assignment: Assignment) -> Self:
        """Starts an interpreter in a session of its own, so that Ctrl-C reaches the supervisor only, which terminates
        the workers."""
        guard = ("-I", str(Path(orphan_guard.__file__)), str(os.getpid()))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *guard, sys.executable, "-m", "antiphon.workers.child"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_REPORT_BYTES_MAX,
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        with suppress(ConnectionError):  # the process died at once: `report` returns that
            process.stdin.write(assignment.encode())
            await process.stdin.drain()
        process.stdin.close()
        return cls(assignment.number, process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def report(self) -> Ready | Failed:
        """Waits for the worker's report: `Failed` also if the process ended without one."""
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        line = await self._process.stdout.readline()
        if line.endswith(b"\n"):
            return parse_report(line)
        status = await self.wait()
        ending = describe_ending(status)
        return Failed(f"Worker {self.number} (process {self.pid}) {ending} before it was ready.", status or 1)

    async def wait(self) -> int:
        """Waits for the end and returns the exit status, as shells do: 128 plus the number of a signal that killed
        it."""
        status = await self._process.wait()
        return 128 - status if status < 0 else status

    def terminate(self) -> None:
        """Sends SIGTERM: the worker drains and ends. After a second SIGTERM it ends at once."""
        with suppress(ProcessLookupError):
            self._process.terminate()


def describe_ending(status: int) -> str:
    """Describes an exit status in words."""
    return f"was killed by signal {status - 128}" if status > 128 else f"ended with status {status}"
