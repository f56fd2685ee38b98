from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from antiphon import logs
from antiphon.workers import child
from antiphon.workers.messages import Assignment, Failed, Ready, parse_report
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.settings import EdgeSettings
from tests.support.local_settings import settings


@dataclass
class Pipes:
    """The worker's standard input and output."""

    stdin: io.TextIOWrapper
    stdout: io.FileIO

    def report(self) -> Ready | Failed:
        self.stdout.seek(0)
        (line,) = self.stdout.readlines()
        return parse_report(line)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[Assignment], tuple[int, Pipes]]]:
    """A function that runs `child.main` with an assignment and returns its exit status and its pipes."""
    opened: list[Pipes] = []
    monkeypatch.setattr(logs, "configure", lambda *_args, **_options: None)
    monkeypatch.setattr(os, "dup2", lambda *_fds: None)  # keeps the output of the test itself

    def main(assignment: Assignment) -> tuple[int, Pipes]:
        pipes = Pipes(io.TextIOWrapper(io.BytesIO(assignment.encode())), (tmp_path / "out").open("w+b", buffering=0))
        monkeypatch.setattr("sys.stdin", pipes.stdin)
        monkeypatch.setattr("sys.stdout", pipes.stdout)
        opened.append(pipes)
        return child.main(), pipes

    yield main
    for pipes in opened:
        pipes.stdout.close()


def test_a_worker_that_cannot_start_reports_its_error_and_prints_nothing(
    run: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    status, pipes = run(Assignment(1, ("edge",), settings(EdgeSettings(port=0)), SealingKeys.ephemeral()))
    report = pipes.report()
    assert (status, report.status) == (2, 2)
    assert report.message.startswith("An edge needs a store")
    assert capfd.readouterr() == ("", "")


def test_a_bug_is_reported_with_its_traceback(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_given: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(child, "build", broken)
    status, pipes = run(Assignment(1, ("edge",), settings(), SealingKeys.ephemeral()))
    assert status == 1
    assert "Traceback" in pipes.report().message
    assert "ZeroDivisionError: a bug" in pipes.report().message
