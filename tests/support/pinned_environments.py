"""Programs whose pins contradict those of the tests, each in an environment of its own: of Python or of Node."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

CACHE = Path.home() / ".cache" / "antiphon"


def environment(name: str, requirements: Path) -> Path:
    """Returns a virtual environment with these pinned and hashed requirements, in the user's cache folder.

    The environment is built once; other processes that need it wait.
    """
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    return _built_once(f"{name}-{digest}", lambda folder: build(folder, requirements))


def node_environment(name: str, pins: Path) -> Path:
    """Returns a folder with the `node_modules` of a package-lock.json, which is in the folder `pins`. Built as
    `environment` builds."""
    digest = hashlib.sha256((pins / "package-lock.json").read_bytes()).hexdigest()[:12]
    return _built_once(f"{name}-{digest}", lambda folder: build_node(folder, pins))


def _built_once(name: str, build_folder: Callable[[Path], None]) -> Path:
    folder = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            build_folder(folder)
            (folder / "complete").touch()
    return folder


def build(folder: Path, requirements: Path) -> None:
    """Makes a virtual environment in `folder`."""
    uv, python = str(Path(sys.executable).with_name("uv")), str(folder / "bin/python")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    packages = ["--require-hashes", "--requirement", str(requirements)]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *packages], check=True)


def build_node(folder: Path, pins: Path) -> None:
    """Installs the packages of a package-lock.json in the folder `pins` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(pins / name, folder)
    subprocess.run(["npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, check=True)
