from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from antiphon_core import orphan_guard

GUARD = str(Path(orphan_guard.__file__))


def test_the_command_takes_the_guards_place_and_keeps_its_exit_status() -> None:
    command = [sys.executable, GUARD, str(os.getpid()), "/bin/sh", "-c", "echo $$; exit 7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        printed, _ = process.communicate()
    assert (int(printed), process.returncode) == (process.pid, 7)


def test_the_guarded_command_dies_with_its_parent() -> None:
    parent = (
        "import os, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, {GUARD!r}, str(os.getpid()), '/bin/sleep', '60'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        deadline = time.monotonic() + 30
        while _command_of(child) != "sleep":  # until the guard has become the command
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
    while _command_of(child) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_guard_starts_no_command_if_its_parent_is_gone() -> None:
    done = subprocess.run([sys.executable, GUARD, "1", "/bin/echo", "started"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


def _command_of(pid: int) -> str | None:
    """The name of a living process; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return None
    return None if stat.rpartition(")")[2].split()[0] == "Z" else Path(f"/proc/{pid}/comm").read_text().strip()
