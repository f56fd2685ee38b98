"""Checkov, the linter for manifests, in an environment of its own: its pins contradict those of the tests.

The environment is built once into the user's cache folder, from a file of pinned and hashed requirements.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REQUIREMENTS = Path(__file__).parents[1] / "k8s" / "requirements-checkov.txt"
CACHE = Path.home() / ".cache" / "antiphon"


@dataclass(frozen=True, slots=True)
class Finding:
    """A check that an object of a manifest failed."""

    check: str
    title: str
    resource: str
    """Kind, namespace and name, with dots between them."""


def findings(folder: Path) -> list[Finding]:
    """Returns checkov's findings about the manifests in a folder, without the network."""
    options = ["--framework=kubernetes", "--skip-download", "--compact", "--quiet", "--output=json", "--soft-fail"]
    command = [str(_environment() / "bin" / "checkov"), *options, f"--directory={folder}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["summary"]["parsing_errors"] == 0
    assert report["summary"]["passed"] > 0
    failed = report["results"]["failed_checks"]
    return [Finding(one["check_id"], one["check_name"], one["resource"]) for one in failed]


def program(name: str, *arguments: str) -> str:
    """Runs another program that comes with checkov, such as the validator of SPDX, and returns its output."""
    command = [str(_environment() / "bin" / name), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _environment() -> Path:
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = CACHE / f"checkov-{digest}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "checkov.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _build(folder)
    return folder


def _build(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet"]
    subprocess.run([*pip, "--require-hashes", "--requirement", str(REQUIREMENTS)], check=True)
    (folder / "complete").touch()
