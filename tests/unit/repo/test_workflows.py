"""CI runs the tests as root on Debian 12: there they install the packages of their servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
WORKFLOWS = ROOT / ".github/workflows"

_USES = re.compile(r"uses: (.*)")
_PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
_IMAGE = re.compile(r"image: ((?:docker\.io|gcr\.io|ghcr\.io|quay\.io|nvcr\.io)/\S+)")
_EXACT = re.compile(r"\S+(?::v?\d+\.\d+\.\d+|@sha256:[0-9a-f]{64})(?:@sha256:[0-9a-f]{64})?")
_BY_DIGEST = re.compile(r"\S+:v?\d+\.\d+\.\d+@sha256:[0-9a-f]{64}")
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


def test_actions_are_pinned_by_commit() -> None:
    """A tag can be moved to other code, which then runs with the token of the release."""
    used = [found[1] for path in WORKFLOWS.glob("*.yaml") for found in _USES.finditer(path.read_text(encoding="utf-8"))]
    assert len(used) > 5
    assert [each for each in used if not _PINNED.fullmatch(each)] == []


def images_in(*paths: Path) -> list[str]:
    """The images of other projects that these files name."""
    return [found[1] for path in paths for found in _IMAGE.finditer(path.read_text(encoding="utf-8"))]


def test_images_of_other_projects_have_an_exact_version() -> None:
    used = images_in(ROOT / "compose.yaml", *(ROOT / "k8s").rglob("*.yaml"))
    assert len(used) > 3
    assert [each for each in used if not _EXACT.fullmatch(each)] == []


def test_images_of_other_projects_in_compose_are_pinned_by_digest() -> None:
    """A tag can be moved to another image, which then runs beside the services."""
    used = images_in(ROOT / "compose.yaml")
    assert len(used) == 3
    assert [each for each in used if not _BY_DIGEST.fullmatch(each)] == []
