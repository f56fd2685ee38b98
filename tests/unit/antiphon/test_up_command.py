from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon import up
from antiphon.cli import main
from antiphon.settings import Settings


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[up.Plan, Settings]]:
    """Replaces `up.run` and lists the plans and settings that it was called with."""
    found: list[tuple[up.Plan, Settings]] = []

    async def run(plan: up.Plan, settings: Settings) -> None:
        found.append((plan, settings))

    monkeypatch.setattr(up, "run", run)
    return found


def test_arguments_become_the_plan_and_the_settings(started: Any, tmp_path: Path) -> None:
    arguments = ["--port=81", "--data", str(tmp_path), "--model-name=mine", "--gguf=m.gguf", "--edge-drain-s=1"]
    assert main(["up", *arguments]) == 0
    ((plan, settings),) = started
    assert (plan.data, plan.name, plan.gguf) == (tmp_path, "mine", Path("m.gguf"))
    assert (settings.edge.port, settings.edge.drain_s) == (81, 1.0)
    assert settings.store.url == f"sqlite:///{tmp_path}/store.db"
    assert settings.translator.profiles == tmp_path / "profiles"


def test_edge_port_flag_overrides_port(started: Any, tmp_path: Path) -> None:
    main(["up", "--port=81", "--edge-port=82", "--data", str(tmp_path)])
    assert started[0][1].edge.port == 82
