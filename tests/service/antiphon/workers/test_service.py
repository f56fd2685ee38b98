from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.settings import ServeSettings, Settings
from antiphon.workers import service
from antiphon.workers.messages import Assignment, Ready
from antiphon_core.config import SettingsError
from antiphon_edge.settings import EdgeSettings
from tests.support.local_settings import settings

AFAR: dict[str, Any] = {"store": "h:1", "translator": "h:1"}


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Assignment, int]]:
    """Replaces the supervisor by one that starts nothing. Lists the arguments of each supervisor."""
    found: list[tuple[Assignment, int]] = []

    class Supervisor:
        def __init__(self, assignment: Assignment, count: int, **_options: Any) -> None:
            found.append((assignment, count))

        async def run(self, on_started: Callable[[Ready], None]) -> int:
            on_started(Ready("edge  http://h:1"))
            return 3

    monkeypatch.setattr(service, "Supervisor", Supervisor)
    return found


def of_workers(edge: EdgeSettings) -> Settings:
    return replace(settings(edge), serve=ServeSettings(workers=2))


async def test_all_workers_share_ports_and_sealing_keys(
    given: list[tuple[Assignment, int]], capfd: pytest.CaptureFixture[str]
) -> None:
    assert await service.run(["edge"], of_workers(EdgeSettings(port=0, replicas=3, **AFAR))) == 3
    ((assignment, count),) = given
    assert (assignment.targets, count) == (("edge",), 2)
    assert assignment.settings.edge.port != 0
    assert assignment.settings.edge.replicas == 6
    assert assignment.sealing_keys is not None
    assert capfd.readouterr().out == "edge  http://h:1\nworkers     2 processes, each with all of this\n"


async def test_a_sealing_keys_file_is_passed_to_each_worker(
    given: list[tuple[Assignment, int]], tmp_path: Path
) -> None:
    await service.run(["edge"], of_workers(EdgeSettings(port=0, sealing_keys_file=tmp_path / "keys", **AFAR)))
    assert given[0][0].settings.edge.sealing_keys_file == tmp_path / "keys"


async def test_workers_with_a_memory_store_are_refused_before_the_start(given: list[tuple[Assignment, int]]) -> None:
    with pytest.raises(SettingsError, match="cannot share memory://"):
        await service.run(["store"], of_workers(EdgeSettings()))
    assert given == []
