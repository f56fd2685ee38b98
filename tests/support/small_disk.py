"""A small file system that a test can fill, for processes that run inside its mount namespace.

    with small_disk(16 * 2**20) as disk:
        command = Command("serve", ..., prefix=disk.inside)
        disk.fill()
        disk.clear()

The file system disappears with the process that holds it, however that process ends.
"""

from __future__ import annotations

import errno
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.children import as_user, start_child
from tests.support.namespaces import IS_ROOT, UNSHARE_MOUNTS

_BLOCK = b"x" * 65_536


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A small file system. Processes inside see it at `folder`, the test at `outside`."""

    folder: Path
    pid: int

    @property
    def outside(self) -> Path:
        return Path(f"/proc/{self.pid}/root{self.folder}")

    @property
    def inside(self) -> Sequence[str]:
        """The start of a command line that runs in the mount namespace of the disk."""
        user = () if IS_ROOT else (f"--user=/proc/{self.pid}/ns/user", "--preserve-credentials")
        enter = ("nsenter", *user, f"--mount=/proc/{self.pid}/ns/mnt", "--")
        return (*enter, *as_user())  # entering a namespace resets the parent-death signal

    def fill(self) -> None:
        """Writes until the disk is full."""
        with self._filler.open("ab", buffering=0) as file:
            for block in (_BLOCK, b"x"):
                with pytest.raises(OSError) as full:
                    while True:
                        file.write(block)
                assert full.value.errno == errno.ENOSPC

    def clear(self) -> None:
        """Deletes the data of `fill`."""
        self._filler.unlink()

    @property
    def _filler(self) -> Path:
        return self.outside / "filler"


@contextmanager
def small_disk(size_bytes: int) -> Iterator[SmallDisk]:
    """Makes a disk of that size that every user may write to."""
    with tempfile.TemporaryDirectory(prefix="disk-") as folder:
        Path(folder).chmod(0o755)
        mount = f"mount -t tmpfs -o size={size_bytes},mode=0777 small '{folder}' && echo mounted && exec sleep infinity"
        holder = start_child([*UNSHARE_MOUNTS, *as_user(), "sh", "-c", mount], stdout=subprocess.PIPE)
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"mounted\n"
            yield SmallDisk(Path(folder), holder.pid)
        finally:
            holder.kill()
            holder.communicate()
