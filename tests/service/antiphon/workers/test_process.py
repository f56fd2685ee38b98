from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from antiphon.workers.messages import Assignment, Failed, Ready
from antiphon.workers.process import WorkerProcess, describe_ending
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.settings import EdgeSettings
from tests.support.local_settings import settings

AFAR: dict[str, Any] = {"store": "127.0.0.1:1", "translator": "127.0.0.1:1"}


def edge(**members: Any) -> Assignment:
    return Assignment(1, ("edge",), settings(EdgeSettings(port=0, **AFAR, **members)), SealingKeys.ephemeral())


async def test_a_worker_reports_its_address_and_ends_after_terminate() -> None:
    worker = await WorkerProcess.start(edge())
    report = await worker.report()
    assert isinstance(report, Ready)
    assert report.addresses.startswith("edge        http://127.0.0.1:")
    assert os.getsid(worker.pid) == worker.pid  # the supervisor passes Ctrl-C on, not the terminal
    worker.terminate()
    assert await worker.wait() == 0
    worker.terminate()  # the process has ended


async def test_a_missing_keys_file_is_reported_by_the_worker_with_status_2(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    worker = await WorkerProcess.start(edge(keys_file=missing, keys_pepper_file=missing))
    assert await worker.report() == Failed(f"Cannot read the pepper {missing}: No such file or directory.", 2)
    assert await worker.wait() == 2


async def test_a_killed_worker_is_reported_by_its_signal() -> None:
    worker = await WorkerProcess.start(edge())
    os.kill(worker.pid, signal.SIGKILL)
    expected = f"Worker 1 (process {worker.pid}) was killed by signal 9 before it was ready."
    assert await worker.report() == Failed(expected, 128 + signal.SIGKILL)


@pytest.mark.parametrize(("status", "words"), [(0, "ended with status 0"), (137, "was killed by signal 9")])
def test_exit_statuses_are_described_in_words(status: int, words: str) -> None:
    assert describe_ending(status) == words
