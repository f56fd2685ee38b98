"""Installs what the images hold, layer by layer: what they share is in a layer of its own.

    python3 assemble.py packages    # the packages that pyproject.toml names, from a folder of wheels
    python3 assemble.py code        # Antiphon itself, and a bill of materials for each image

Runs in the build stages of the Containerfile, from wheels whose hashes were checked. Needs nothing but Python and pip.
"""

from __future__ import annotations

import compileall
import json
import os
import py_compile
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sbom import ROOT as PROJECT
from sbom import document_text

WHEELS = Path("/wheels")
PACKAGES = Path("/packages")
CODE = Path("/code")
BILLS = Path("/bills")
TARGET = Path("/opt/antiphon")
"""Where all of it is in an image."""
BASE_PACKAGES = Path("/base/dpkg")
BILL = "sbom.spdx.json"
SOURCES = ("*.c", "*.h", "*.pyx", "*.pxd", "*.pxi", "*.pyi")


@dataclass(frozen=True)
class Layer:
    """The packages of these extras that are not in the layer below."""

    extras: tuple[str, ...]
    below: str | None = "common"


COMMON = ("loop", "otel", "telemetry")
LAYERS = {
    "common": Layer(COMMON, None),
    "edge": Layer(("edge", *COMMON)),
    "translator": Layer(("translator", *COMMON)),
    "store": Layer(("store", *COMMON)),
    "tools": Layer(("tools", *COMMON)),
    "all": Layer(("edge", "translator", "store", "tools", *COMMON), "translator"),
}
"""Each comes after the layer below it."""


def main(part: str) -> int:
    {"packages": install_packages, "code": install_code}[part]()
    return 0


def install_packages() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins: dict[str | None, set[str]] = {None: set()}
    for name, layer in LAYERS.items():
        pins[name] = resolve([*project["dependencies"], *of_extras(project["optional-dependencies"], layer.extras)])
        install(sorted(pins[name] - pins[layer.below]), PACKAGES / name)


def install_code() -> None:
    """The bills have the time of the SOURCE_DATE_EPOCH, so that the same packages give the same text."""
    install([".", "./triton_models"], CODE)
    created_s = int(os.environ.get("SOURCE_DATE_EPOCH") or 0)
    for name in LAYERS:
        bill = BILLS / name / BILL
        bill.parent.mkdir(parents=True)
        folders = [CODE, *(PACKAGES / layer for layer in stack(name))]
        bill.write_text(document_text(folders, BASE_PACKAGES, created_s=created_s), encoding="utf-8")


def stack(name: str | None) -> Iterator[str]:
    """A layer and those below it."""
    while name is not None:
        yield name
        name = LAYERS[name].below


def of_extras(optional: dict[str, list[str]], extras: Sequence[str]) -> Iterator[str]:
    """The requirements of extras, also of those that an extra names in turn."""
    for extra in extras:
        for requirement in optional[extra]:
            if requirement.startswith(f"{PROJECT}["):
                yield from of_extras(optional, requirement.partition("[")[2].rstrip("]").split(","))
            else:
                yield requirement


def resolve(requirements: Sequence[str]) -> set[str]:
    """Everything that is installed for these requirements, with versions."""
    report = json.loads(pip("--dry-run", "--ignore-installed", "--report=-", *requirements))
    found = [one["metadata"] for one in report["install"]]
    return {f"{one['name']}=={one['version']}" for one in found}


def install(pins: Sequence[str], folder: Path) -> None:
    """Installs these packages and no others. Scripts are left out: the image has no shell to call them."""
    pip("--no-deps", "--no-compile", f"--target={folder}", *pins)
    for script in folder.glob("bin/*"):
        script.unlink()
    trim(folder)
    compile_all(folder)


def pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", f"--find-links={WHEELS}", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603 - our own pip


def trim(folder: Path) -> None:
    """Takes away what only compilers, editors and debuggers read: 25 MB of an edge, most of it uvloop's."""
    for pattern in SOURCES:
        for path in folder.rglob(pattern):
            path.unlink()
    # Not the libraries in NAME.libs: the tool that put them there moved sections about, and strip may break such files.
    modules = [str(path) for path in folder.rglob("*.so") if not path.parent.name.endswith(".libs")]
    if modules:
        subprocess.run(["strip", "--strip-debug", *modules], check=True)  # noqa: S603, S607 - the build stage has one strip


def compile_all(folder: Path) -> None:
    """Bytecode that is never compared with its source: copies between images change the times of files."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    places = {"stripdir": str(folder), "prependdir": str(TARGET)}
    if not compileall.compile_dir(str(folder), quiet=1, workers=0, invalidation_mode=mode, **places):
        raise SystemExit("some modules do not compile")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
