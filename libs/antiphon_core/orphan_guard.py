"""Runs a command that dies with its parent: `python orphan_guard.py PARENT_PID COMMAND [ARGUMENT ...]`.

Asks the Linux kernel to kill this process when the parent dies, however it dies, then becomes the command; the wish
survives exec. Started as a script, without the package, to cost no more than an interpreter start.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent_pid: int, command: list[str]) -> None:
    """Becomes `command`; exits instead when the parent is already gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:  # died before the wish was made
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606 - the command is the purpose


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
