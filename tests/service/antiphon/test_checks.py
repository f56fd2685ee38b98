from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from antiphon import checks
from antiphon.checks import Finding, Level
from antiphon.settings import load
from antiphon_core.clock import ManualClock
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.settings import StoreSettings


def test_a_missing_extra_is_a_warning_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_spec", lambda module: None if module == "redis" else object())
    found = [finding for finding in checks.of_machine() if finding.subject == "packages"]
    assert found == [
        Finding(
            Level.WARNING, "packages", "not installed: redis", "pip install 'antiphon-server[redis]', if you need them."
        )
    ]


@pytest.mark.parametrize(("most", "level"), [(256, Level.WARNING), (65_536, Level.OK)])
def test_few_descriptors_are_a_warning(most: int, level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _kind: (most, most))
    (found,) = (finding for finding in checks.of_machine() if finding.subject == "descriptors")
    assert found.level is level


def test_a_full_disk_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "DISK_BYTES_MIN", 2**70)
    assert checks._disk(tmp_path / "not" / "there").level is Level.WARNING


async def test_a_new_sqlite_file_and_a_memory_store_are_warnings(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    (finding,) = await checks.of_store(StoreSettings(url=url))
    assert (finding.level, finding.remedy) == (Level.WARNING, "The first start creates it.")
    (finding,) = await checks.of_store(StoreSettings(url="memory://"))
    assert finding.level is Level.WARNING


async def test_a_password_in_the_url_of_a_store_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon_store.backends.registry.row_backend", lambda *_, **__: MemoryRows(ManualClock()))
    (finding,) = await checks.of_store(StoreSettings(url="postgresql://user:canary@host/database"))
    assert (finding.level, finding.message) == (Level.OK, "postgresql, durability memory")


async def test_a_folder_that_cannot_be_examined_is_a_finding(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 300)  # this name is too long, which is an error for root, too
    assert checks._disk(folder).level is Level.WARNING
    (finding,) = await checks.of_store(StoreSettings(url=f"sqlite:///{folder}/store.db"))
    assert finding.level is Level.FAULT
    assert str(folder) in finding.message


async def test_an_invalid_profile_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('name = "m"\nengine = "none"\n')
    loaded = load(environ={}, flags={"--translator-profiles": str(tmp_path)}, file=None)
    (finding,) = await checks.of_profiles(loaded)
    assert (finding.level, finding.subject) == (Level.FAULT, "bad")


async def test_an_unreachable_server_is_a_warning() -> None:
    (finding,) = await checks.of_server("http://127.0.0.1:9/v1")
    assert finding.level is Level.WARNING
    assert "antiphon up" in finding.remedy


async def test_a_server_without_models_is_a_fault() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"data": []} if request.path.endswith("/models") else {"release": ""})

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    async with TestServer(application) as server:
        (finding,) = await checks.of_server(str(server.make_url("/v1")))
    assert (finding.level, finding.remedy) == (Level.FAULT, "")
    assert "serves no model" in finding.message


@pytest.mark.parametrize(("release", "count"), [("", 0), ("0.0.1", 1)])
def test_a_server_of_another_release_is_a_warning(release: str, count: int) -> None:
    assert len(list(checks._release(release))) == count


@pytest.mark.parametrize(
    ("date", "count"),
    [("", 0), ("Thu, 01 Jan 2015 00:00:00 GMT", 1), ("soon", 1), ("Thu, 01 Jan 99999999999 00:00:00 GMT", 1)],
)
def test_a_server_clock_that_differs_is_a_warning(date: str, count: int) -> None:
    assert len(list(checks._clock(date))) == count
