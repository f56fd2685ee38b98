"""CI runs the tests as root on Debian 12: there they install the packages of their servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

WORKFLOWS = Path(__file__).parents[3] / ".github/workflows"

_TESTS = re.compile(r"make (?:test|nightly|\$\{\{ matrix\.target \}\})")


def jobs_with_tests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the name and the definition of each job that runs tests."""
    for path in sorted(WORKFLOWS.glob("*.yaml")):
        for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items():
            if any(_TESTS.search(step.get("run", "")) for step in job["steps"]):
                yield f"{path.name}: {name}", job


def test_jobs_that_run_tests_are_root_in_a_debian_with_privileges() -> None:
    """Ubuntu has Chromium as a snap only, no libpython3.11, and none of the packages of the base images. Tests make
    network namespaces and containers, which need the privileges."""
    found = dict(jobs_with_tests())
    assert len(found) == 2
    for name, job in found.items():
        container = job.get("container", {})
        assert container.get("image", "").endswith("-bookworm"), name
        assert "--privileged" in container["options"].split(), name
