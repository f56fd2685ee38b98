"""The images of the Containerfile, built and run by Debian's buildah, podman and runc, without a daemon or a registry.

The base images come from `container_bases.py`, and the Python packages from a folder of wheels with checked hashes, so
the build needs only Debian's packages from the network. The stages without code of Antiphon are kept in the user's
cache folder, in a storage on top of which the images are built.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from packaging.markers import Marker

from tests.support.children import start_child
from tests.support.container_bases import BASE_NAME, BUILD_NAME, CACHE, base_archive, build_archive
from tests.support.debian import found_or_installed
from tests.support.volume import IS_NIGHTLY

ROOT = Path(__file__).parents[2]
TARGETS = ("edge", "worker", "translator", "store", "tools", "all")
PYTHON = "3.11.2"
"""The Python version of Debian 12, for which the wheels are downloaded."""
SANDBOX = ("--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL", "--security-opt=no-new-privileges")
# The default number of open files exceeds the hard limit of containers in which tests run.
LIMITS = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096")

STAGES = ("packages", "edge-packages", "translator-packages", "store-packages", "tools-packages", "all-packages")
"""The stages without code of Antiphon, each after the stages that it needs."""
INPUTS = (
    "Containerfile", "requirements.txt", "containers/assemble.py", "containers/sbom.py",
    "tests/support/container_bases.py",
)  # fmt: skip
"""The files that determine these stages, besides the packages that pyproject.toml names."""
UNUSED_S_MAX = 3 * 24 * 3600
"""Stages that no run has used for this time are deleted, because they take more than a gigabyte."""
MEMORY_BYTES = 6 * 2**30

_REQUIREMENT = re.compile(r"^(?P<pin>\S+==\S+)(?: ; (?P<marker>.*?))? \\$")


@dataclass(frozen=True, slots=True)
class Images:
    """The built images in their own storage. Missing images are read from the storage `below`."""

    storage: Path
    below: Path | None = None

    def inspect(self, target: str) -> dict[str, Any]:
        done = self._podman("image", "inspect", name_of(target))
        (found,) = json.loads(done)
        document: dict[str, Any] = found
        return document

    def read(self, target: str, path: str) -> str:
        """Returns the text of a file in an image."""
        with self.mounted(target) as root:
            return (root / path.lstrip("/")).read_text(encoding="utf-8")

    @contextmanager
    def mounted(self, target: str) -> Iterator[Path]:
        yield Path(self._podman("image", "mount", name_of(target)).strip())
        self._podman("image", "unmount", name_of(target))

    def output(self, target: str, *arguments: str) -> str:
        """Runs a container of this image, and returns what it prints."""
        return self._podman("run", *_run_options(), name_of(target), *arguments)

    def python(self, target: str, code: str) -> str:
        """Runs Python code in a container of this image, and returns what it prints."""
        return self._podman("run", *_run_options(), "--entrypoint=/usr/bin/python3", name_of(target), "-c", code)

    @contextmanager
    def running(
        self, target: str, environment: Mapping[str, str], volumes: Sequence[Path] = ()
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Runs a container in the network of this machine, with these folders mounted at their own paths."""
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        mounts = [f"--volume={folder}:{folder}:ro" for folder in volumes]
        command = self._command("run", *_run_options(), *variables, *mounts, name_of(target))
        process = start_child(command)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()

    def build(self, stage: str, name: str, built: Mapping[str, str]) -> None:
        """Builds a stage of the Containerfile. The images in `built` replace earlier stages."""
        wheels = _wheels()
        options = ["--isolation=chroot", "--pull-never", "--layers", "--quiet", f"--volume={wheels}:{wheels}:ro"]
        arguments = ["--build-arg=PIP_NO_INDEX=1", f"--build-arg=PIP_FIND_LINKS={wheels}"]
        contexts = [f"--build-context={before}=container-image://{image}" for before, image in built.items()]
        self._buildah("bud", *options, *arguments, *contexts, f"--target={stage}", f"--tag={name}", str(ROOT))

    def load(self, archive: Path, name: str) -> None:
        """Makes a base image from a tar archive."""
        container = self._buildah("from", "scratch").strip()
        self._buildah("add", "--quiet", container, str(archive), "/")
        self._buildah("commit", "--quiet", "--rm", container, name)

    def _buildah(self, *arguments: str) -> str:
        return _output([_program("buildah"), *self._storage_options(), *arguments])

    def _podman(self, *arguments: str) -> str:
        return _output(self._command(*arguments))

    def _command(self, *arguments: str) -> list[str]:
        return [_program("podman"), *self._storage_options(), "--cgroup-manager=cgroupfs", "--runtime=runc", *arguments]

    def _storage_options(self) -> tuple[str, ...]:
        below = () if self.below is None else (f"--storage-opt=additionalimagestore={self.below}",)
        return (f"--root={self.storage}/root", f"--runroot={self.storage}/run", "--storage-driver=overlay", *below)


@contextmanager
def built_images() -> Iterator[Images]:
    """Builds all images of the Containerfile, and deletes them afterwards."""
    _program("runc")
    with _kept_stages() as stages, _storage(stages) as images:
        kept = {stage: name_of(stage) for stage in STAGES}
        images.build("code", name_of("code"), kept)
        for target in TARGETS:
            images.build(target, name_of(target), kept | {"code": name_of("code")})
        yield images


@contextmanager
def _kept_stages() -> Iterator[Path]:
    """A storage with the base images and the stages without code of Antiphon. A shared lock protects it from deletion
    while it is used."""
    folder = CACHE / f"stages-{_digest_of_inputs()}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with _lock_of(folder).open("w") as lock:
        _lock_built(lock, folder)
        folder.touch()
        _delete_unused()
        yield folder


def _digest_of_inputs() -> str:
    """Settings of tools in pyproject.toml do not count: building the stages takes more than a minute of CPU."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    contents = [(ROOT / name).read_bytes() for name in INPUTS]
    return hashlib.sha256(b"".join([*contents, json.dumps([project, STAGES]).encode()])).hexdigest()[:12]


def _lock_of(folder: Path) -> Path:
    """Opens the lock file of stages, their drafts and their remains. Users of the stages share the lock; building and
    deleting needs it exclusively."""
    return folder.with_suffix(".lock")


def _lock_built(lock: IO[str], folder: Path) -> None:
    """Takes the shared lock of existing stages. Builds them first if an input has changed, and in each nightly run."""
    is_current = not IS_NIGHTLY
    while True:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if is_current and folder.exists():
            return
        fcntl.flock(lock, fcntl.LOCK_EX)  # not atomic: between the two locks another run may have built them
        if not (is_current and folder.exists()):
            _build_stages(folder)
            is_current = True


def _build_stages(folder: Path) -> None:
    """Builds a draft beside the folder and renames it last, so that a folder with its final name is complete."""
    draft = folder.with_suffix(".draft")
    _delete(draft)
    with _storage() as images:
        images.load(build_archive(), BUILD_NAME)
        images.load(base_archive(), BASE_NAME)
        for number, stage in enumerate(STAGES):
            images.build(stage, name_of(stage), {before: name_of(before) for before in STAGES[:number]})
        # The copy includes devices and extended attributes, of which an overlay consists.
        subprocess.run(["cp", "--archive", f"{images.storage}/root", str(draft)], check=True)
    _delete(folder)
    draft.rename(folder)


def _delete_unused() -> None:
    """Deletes stages that have been unused for long, and the remains of interrupted runs."""
    for folder in CACHE.glob("stages-*/"):
        with _lock_of(folder).open("w") as lock, suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.exists() and time.time() - folder.stat().st_mtime > UNUSED_S_MAX:
                _delete(folder)


def _delete(folder: Path) -> None:
    """Deletes a folder after renaming it, so that an interrupted deletion leaves nothing that looks complete."""
    old = folder.with_suffix(".old")
    if old.exists():  # left by an interrupted deletion
        shutil.rmtree(old)
    if folder.exists():
        folder.rename(old)
        shutil.rmtree(old)


@contextmanager
def _storage(below: Path | None = None) -> Iterator[Images]:
    storage = Path(tempfile.mkdtemp(prefix="antiphon-images-", dir=_roomy_memory()))
    try:
        yield Images(storage, below)
    finally:
        _remove(storage)


def _roomy_memory() -> Path | None:
    """Returns the file system in memory if it has room for two gigabytes of images. Removing them from a disk takes
    half a minute."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > MEMORY_BYTES else None


def _remove(storage: Path) -> None:
    """Removes a storage and its mounts: the storage mounts itself, and each killed container leaves its root
    mounted."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(str(storage))), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=True)
    shutil.rmtree(storage)


def name_of(target: str) -> str:
    return f"localhost/antiphon-{target}:dev"


def requirements_for(python: str, text: str) -> str:
    """Evaluates the markers of a requirements file for another Python version on Linux, and removes them."""
    kept: list[str] = []
    is_kept = True
    for line in text.splitlines():
        if found := _REQUIREMENT.match(line):
            marker = found["marker"]
            is_kept = marker is None or Marker(marker).evaluate({"python_full_version": python})
            line = f"{found['pin']} \\"  # noqa: PLW2901 - the same line without its marker
        if is_kept:
            kept.append(line)
    return "\n".join(kept) + "\n"


def _wheels() -> Path:
    """Downloads the wheels of all requirements into a folder. pip checks their hashes here and in the build."""
    text = requirements_for(PYTHON, (ROOT / "requirements.txt").read_text(encoding="utf-8"))
    folder = CACHE / f"wheels-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = folder / "requirements.txt"
    if wanted.exists():
        return folder
    draft = folder / "requirements.draft.txt"
    draft.write_text(text)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    subprocess.run([*pip, f"--requirement={draft}", f"--dest={folder}"], check=True)
    draft.replace(wanted)
    return folder


def _run_options() -> tuple[str, ...]:
    return ("--rm", "--pull=never", "--network=host", *SANDBOX, *LIMITS)


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-4000:]}"
    return done.stdout


def _program(name: str) -> str:
    return found_or_installed(lambda: shutil.which(name), "buildah", "podman", "runc", "catatonit")
