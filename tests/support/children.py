"""Child processes that never outlive the tests: the kernel kills them when the process that started them ends.

A test run may end by a timeout or by `kill -9`, and then no `finally` and no `atexit` runs.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from queue import SimpleQueue
from typing import Any

_Job = tuple[Future["subprocess.Popen[Any]"], Callable[[], "subprocess.Popen[Any]"]]


def start_child(command: Sequence[str], *, user: str | None = None, **options: Any) -> subprocess.Popen[Any]:
    """Starts a command like subprocess.Popen. The child becomes `user` and dies with this process.

    `setpriv` asks the kernel for both, and then becomes the command. subprocess's own `user` and `preexec_fn` are not
    used, because they fork, and a forked child of a process with active gRPC may crash before it is the server. Without
    them the child is started with vfork, in which gRPC does not interfere.
    """
    mortal = [*as_user(user), *command]
    started: Future[subprocess.Popen[Any]] = Future()
    _starter().put((started, lambda: subprocess.Popen(mortal, **options)))
    return started.result()


def as_user(user: str | None = None) -> Sequence[str]:
    """Returns the start of a command line whose process becomes `user` and dies with its parent."""
    owner = () if user is None else (f"--reuid={user}", f"--regid={user}", "--clear-groups")
    return ("setpriv", *owner, "--pdeathsig=KILL", "--")


@cache
def _starter() -> SimpleQueue[_Job]:
    """Returns the queue of a thread that starts processes and lives as long as this process. For the kernel the parent
    of a child is the thread that started it, and the thread of a test may end before its server should."""
    jobs: SimpleQueue[_Job] = SimpleQueue()
    threading.Thread(target=_run_all, args=[jobs], name="starts children", daemon=True).start()
    return jobs


def _run_all(jobs: SimpleQueue[_Job]) -> None:
    while True:
        started, start = jobs.get()
        try:
            started.set_result(start())
        except Exception as error:  # noqa: BLE001 - it is raised where the child was asked for
            started.set_exception(error)
