"""Builds the packages of the clients: `python -m clients.package FOLDER` writes a wheel and a tarball for npm."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from clients.generate import ROOT, generate_typescript

CLIENTS = ROOT / "clients"
LICENSE = ROOT / "LICENSE"


def make_wheel(folder: Path) -> Path:
    """Builds the Python client with the hatchling of this environment, and returns the wheel."""
    return _made(folder, "*.whl", [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d"], CLIENTS / "python")


def make_tarball(folder: Path) -> Path:
    """Packs the TypeScript client, and returns the tarball."""
    with tempfile.TemporaryDirectory() as package:
        shutil.copytree(CLIENTS / "typescript", package, dirs_exist_ok=True)
        shutil.copy(LICENSE, package)
        generate_typescript(Path(package))
        return _made(folder, "*.tgz", ["npm", "pack", "--silent", "--pack-destination"], Path(package))


def _made(folder: Path, pattern: str, command: list[str], source: Path) -> Path:
    """Runs a command that writes one file to the folder in its last argument, and copies the file to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as output:
        subprocess.run([*command, output], cwd=source, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ours
        (made,) = Path(output).glob(pattern)
        return Path(shutil.copy(made, folder))


if __name__ == "__main__":
    for make in (make_wheel, make_tarball):
        print(make(Path(sys.argv[1])))
