"""Programs whose pins contradict those of the tests, each in a virtual environment of its own."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

CACHE = Path.home() / ".cache" / "antiphon"


def environment(name: str, requirements: Path) -> Path:
    """Returns a virtual environment with these pinned and hashed requirements, in the user's cache folder.

    The environment is built once; other processes that need it wait.
    """
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = CACHE / f"{name}-{digest}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            build(folder, requirements)
            (folder / "complete").touch()
    return folder


def build(folder: Path, requirements: Path) -> None:
    """Makes a virtual environment in `folder`."""
    uv, python = str(Path(sys.executable).with_name("uv")), str(folder / "bin/python")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    packages = ["--require-hashes", "--requirement", str(requirements)]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *packages], check=True)
