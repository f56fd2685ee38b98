"""Runs a command that dies with its parent: `python orphan_guard.py PARENT_PID COMMAND [ARGUMENT ...]`.

Has the Linux kernel send SIGKILL to this process when its parent dies, then replaces itself with the command by exec,
which keeps that setting. Runs as a script that imports no package, to start fast.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent_pid: int, command: list[str]) -> None:
    """Replaces this process with `command`; exits if the parent is already dead."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:  # the parent died before prctl
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606 - the command is the purpose


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
