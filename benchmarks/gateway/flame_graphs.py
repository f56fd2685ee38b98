"""Flame graphs of running processes, by py-spy.

py-spy attaches to a process that is not its child. Where the kernel forbids that (`kernel.yama.ptrace_scope`), run the
bench as root.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.children import start_child

SAMPLES_PER_S = 200
END_TIMEOUT_S = 120


@dataclass(slots=True)
class FlameGraphs:
    """The flame graphs of recorded processes, one file each, in one folder."""

    folder: Path
    written: list[Path] = field(default_factory=list)

    def record(self, name: str, pids: Mapping[str, int], life: ExitStack) -> None:
        """Records processes until `life` ends; it must end before they do."""
        for part, pid in pids.items():
            file = self._new_file(f"{name} {part}".replace(" ", "-"))
            command = [*_recorder(file), "--pid", str(pid)]
            process = start_child(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            life.callback(_finish, process, file)

    def record_command(self, name: str, command: Sequence[str]) -> None:
        """Runs a command to its end, and records all of it."""
        recorder = _recorder(self._new_file(name))
        subprocess.run([*recorder, "--", *command], check=True, capture_output=True)

    def _new_file(self, name: str) -> Path:
        """Returns a file name that this run has not used yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{name}.svg"
        number = 2
        while file in self.written:
            file, number = self.folder / f"{name}-{number}.svg", number + 1
        self.written.append(file)
        return file


def _recorder(file: Path) -> Sequence[str]:
    file.unlink(missing_ok=True)
    return [_program(), "record", "--subprocesses", "--rate", str(SAMPLES_PER_S), "--output", str(file)]


def _program() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise SystemExit("py-spy is missing: make install")
    return found


def _finish(process: subprocess.Popen[str], file: Path) -> None:
    """Lets py-spy write its recording. RuntimeError: py-spy could not attach."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=END_TIMEOUT_S)
    if not file.exists():
        raise RuntimeError(f"py-spy wrote no {file.name}: {complaints}")
