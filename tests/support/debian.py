"""Installs Debian packages of missing servers, without starting their services."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

POLICY = Path("/usr/sbin/policy-rc.d")
"""The script that Debian's packages run before they start a service."""
CLUSTER_SETTINGS = Path("/etc/postgresql-common/createcluster.conf")
"""The file that makes PostgreSQL's packages create a database, or not."""
LOCK = Path(tempfile.gettempdir()) / "antiphon-tests-packages.lock"

_Found = TypeVar("_Found")


def found_or_installed(find: Callable[[], _Found | None], *packages: str) -> _Found:
    """Calls `find`, after installing these packages if need be. RuntimeError: the packages must be installed by
    hand."""
    found = find()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        with _alone(), _no_service_started():
            found = find() or _installed(find, packages)
    if found is None:
        raise RuntimeError(f"The tests need a server: apt-get install -y --no-install-recommends {' '.join(packages)}")
    return found


def _installed(find: Callable[[], _Found | None], packages: tuple[str, ...]) -> _Found | None:
    if not CLUSTER_SETTINGS.exists():
        CLUSTER_SETTINGS.parent.mkdir(parents=True, exist_ok=True)
        CLUSTER_SETTINGS.write_text("create_main_cluster = false\n")
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", "-q", *command], check=True, env=environ, stdout=subprocess.DEVNULL)
    return find()


@contextmanager
def _alone() -> Iterator[None]:
    """A lock under which one test process installs while the others wait for the packages."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _no_service_started() -> Iterator[None]:
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()
