"""Puts the packages of an image into /opt/antiphon: installed, compiled, with a bill of materials.

    python3 containers/assemble.py edge,store

Runs in the build stage of the Containerfile, from wheels whose hashes were checked. Needs nothing but Python and pip.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import subprocess
import sys
from pathlib import Path

from sbom import document_text

WHEELS = Path("/wheels")
TARGET = Path("/opt/antiphon")
BASE_PACKAGES = Path("/base/dpkg")
BILL = "sbom.spdx.json"
SOURCES = ("*.c", "*.h", "*.pyx", "*.pxd", "*.pxi", "*.pyi")


def main(extras: str) -> int:
    install(extras)
    trim()
    compile_all()
    created_s = int(os.environ.get("SOURCE_DATE_EPOCH") or 0)
    (TARGET / BILL).write_text(document_text(TARGET, BASE_PACKAGES, created_s=created_s), encoding="utf-8")
    return 0


def install(extras: str) -> None:
    """Installs these extras, and no more. Scripts are left out: the image has no shell to call them."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", f"--find-links={WHEELS}", "--no-compile"]
    subprocess.run([*pip, f"--target={TARGET}", f"antiphon-server[{extras}]"], check=True)  # noqa: S603 - our own pip
    for script in TARGET.glob("bin/*"):
        script.unlink()


def trim() -> None:
    """Takes away what only compilers, editors and debuggers read: 25 MB of an edge, most of it uvloop's."""
    for pattern in SOURCES:
        for path in TARGET.rglob(pattern):
            path.unlink()
    # Not the libraries in NAME.libs: the tool that put them there moved sections about, and strip may break such files.
    modules = [str(path) for path in TARGET.rglob("*.so") if not path.parent.name.endswith(".libs")]
    subprocess.run(["strip", "--strip-debug", *modules], check=True)  # noqa: S603, S607 - the build stage has one strip


def compile_all() -> None:
    """Bytecode that is never compared with its source: copies between images change the times of files."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(str(TARGET), quiet=1, workers=0, invalidation_mode=mode):
        raise SystemExit("some modules do not compile")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
