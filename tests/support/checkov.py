"""Checkov, the linter for manifests."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.pinned_environments import environment

REQUIREMENTS = Path(__file__).parents[1] / "k8s" / "requirements-checkov.txt"


@dataclass(frozen=True, slots=True)
class Finding:
    """A failed check of an object in a manifest."""

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
    return environment("checkov", REQUIREMENTS)
