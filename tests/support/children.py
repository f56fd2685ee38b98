"""Processes that tests start and that none outlives: the kernel kills them when the process that started them ends.

A test run may end without a word: by a time limit, by `kill -9`. No `finally` and no `atexit` is heard then.
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
    """As subprocess.Popen, for a command that becomes `user` and dies with us.

    `setpriv` asks the kernel for both, and then becomes the command. It takes the place of subprocess's own `user` and
    `preexec_fn`: to run those it forks, and a child in which gRPC was at work may crash before it is the server.
    Without them the child comes of vfork, where gRPC has no say."""
    mortal = [*as_user(user), *command]
    started: Future[subprocess.Popen[Any]] = Future()
    _starter().put((started, lambda: subprocess.Popen(mortal, **options)))
    return started.result()


def as_user(user: str | None = None) -> Sequence[str]:
    """The beginning of a child's command line: the child becomes `user`, and dies with its parent."""
    owner = () if user is None else (f"--reuid={user}", f"--regid={user}", "--clear-groups")
    return ("setpriv", *owner, "--pdeathsig=KILL", "--")


@cache
def _starter() -> SimpleQueue[_Job]:
    """The queue of a thread that starts processes and ends with this process. To the kernel a child's parent is the
    thread that started the child, and the thread of a test may end before its server should."""
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
