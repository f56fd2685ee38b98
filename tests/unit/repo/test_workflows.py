"""The workflows of CI install the servers that the tests need: without root the tests cannot install them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.support import postgres_server, redis_servers

WORKFLOWS = Path(__file__).parents[3] / ".github/workflows"
SERVERS = {*redis_servers.PACKAGES, postgres_server.PACKAGE, "prometheus"}

_TESTS = re.compile(r"make (?:test|nightly|\$\{\{ matrix\.target \}\})")


def jobs_with_tests() -> Iterator[tuple[str, list[str]]]:
    """Yields the name and the commands of each job that runs tests."""
    for path in sorted(WORKFLOWS.glob("*.yaml")):
        for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items():
            commands = [step["run"] for step in job["steps"] if "run" in step]
            if any(map(_TESTS.search, commands)):
                yield f"{path.name}: {name}", commands


def test_jobs_that_run_tests_install_their_servers_first() -> None:
    found = dict(jobs_with_tests())
    assert len(found) == 2
    for name, commands in found.items():
        assert _TESTS.search(commands[-1]), name
        assert set(" ".join(commands[:-1]).split()) >= SERVERS, name
