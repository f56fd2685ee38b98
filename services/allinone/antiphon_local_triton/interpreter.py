"""Finds a Python that the bundled Triton's Python backend can embed: a supported version with a shared libpython."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from antiphon_local_triton.errors import LocalModelError

VERSIONS = ("3.12", "3.11", "3.10")
"""The versions for which both Triton's stubs and the last numpy 1 were built, best first."""
ASK_TIMEOUT_S = 30

_ASK = """
import ctypes, json, sys, sysconfig
version = "%d.%d" % sys.version_info[:2]
name = f"libpython{version}.so.1.0"
directory = sysconfig.get_config_var("LIBDIR") or ""
found = False
for candidate in (f"{directory}/{name}", name):
    try:
        ctypes.CDLL(candidate)
        found = True
        break
    except OSError:
        pass
print(json.dumps({"version": version, "library_dir": directory, "has_library": found}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter, described by its own sysconfig."""

    executable: str
    version: str
    """Major and minor, for example 3.11."""
    library_dir: Path
    """The folder of its shared libpython. If it has none there, the dynamic linker may still find one."""
    has_library: bool


def find_interpreter() -> Interpreter:
    """The running Python if it is suitable, else the best on PATH. Raises LocalModelError, which names the packages to
    install."""
    candidates = [sys.executable, *(found for v in VERSIONS if (found := shutil.which(f"python{v}")))]
    fitting: list[Interpreter] = []
    for interpreter in map(_describe, candidates):  # one after the other: each takes a tenth of a second
        if interpreter is None or interpreter.version not in VERSIONS:
            continue
        if interpreter.has_library:
            return interpreter
        fitting.append(interpreter)
    if fitting:
        version = fitting[0].version
        raise LocalModelError(
            f"Python {version} is there, but not its shared library libpython{version}.so.1.0, which the bundled "
            f"Triton loads. On Debian or Ubuntu: apt install libpython{version}."
        )
    raise LocalModelError(
        f"The bundled Triton server needs Python {', '.join(reversed(VERSIONS))}; this is "
        f"{sys.version_info.major}.{sys.version_info.minor} and no other is on PATH. On Debian or Ubuntu: "
        f"apt install python{VERSIONS[0]}-venv libpython{VERSIONS[0]}."
    )


def _describe(executable: str) -> Interpreter | None:
    """Runs an interpreter to describe itself. None if it does not run, like the shim of a version manager for a version
    that is not installed."""
    try:
        answer = subprocess.run(  # noqa: S603 - an interpreter of this machine
            [executable, "-c", _ASK], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=True
        )
        facts = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return Interpreter(
        executable=executable,
        version=facts["version"],
        library_dir=Path(facts["library_dir"]),
        has_library=facts["has_library"],
    )
