"""Attack 11: files of secrets that are emptied, deleted, replaced by a folder, or opened to all, while Antiphon runs.
Nothing fails open: after a grace nobody is let in, a metric says so, and a corrected file is used again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import Unavailable
from antiphon_core.rpc import watched
from antiphon_core.rpc.authentication import Guard
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.server import RpcServer
from antiphon_core.telemetry import metrics
from antiphon_edge.callers.api_keys import KeyGuard
from antiphon_edge.sealed.sealing import BadSeal, Sealer
from tests.support.api_keys import KeyFiles, bearer
from tests.support.edge import running_edge

TOKEN = "token-0123456789abcdef"
OLD, NEW = "old " + "0" * 64 + "\n", "new " + "1" * 64 + "\n"


def empty(path: Path) -> None:
    path.write_text("")


def fill_with_junk(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def replace_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def open_to_all(path: Path) -> None:
    path.chmod(0o666)


Damage = Callable[[Path], None]
DAMAGES: list[Damage] = [empty, Path.unlink, fill_with_junk, replace_by_a_folder, open_to_all]


def restore(path: Path, text: str) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.write_text(text)
    path.chmod(0o600)


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)


def unusable(setting: str) -> float:
    return metrics.SECRETS_UNUSABLE.of(setting).value


@pytest.mark.parametrize("name", ["keys", "pepper"])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_an_edge_without_its_keys_lets_nobody_in(tmp_path: Path, name: str, damage: Damage) -> None:
    files = KeyFiles(tmp_path)
    secret = files.make("acme")
    path, text = tmp_path / name, (tmp_path / name).read_text()
    async with running_edge(**files.settings, secrets_grace_s=0.0) as edge:
        damage(path)
        refused = await edge.ask("GET", "/v1/models", headers=bearer(secret))
        assert (refused.status, unusable("edge.keys_file")) == (503, 1)
        assert str(path) not in refused.body.decode()
        restore(path, text)
        assert (await edge.ask("GET", "/v1/models", headers=bearer(secret))).status == 200
        assert unusable("edge.keys_file") == 0


async def test_within_the_grace_the_keys_stay_valid(tmp_path: Path) -> None:
    """A rotation that takes a moment locks nobody out."""
    files = KeyFiles(tmp_path)
    secret = files.make("acme")
    async with running_edge(**files.settings) as edge:
        files.keys.unlink()
        assert (await edge.ask("GET", "/v1/models", headers=bearer(secret))).status == 200
        assert unusable("edge.keys_file") == 1


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_store_without_its_tokens_lets_nobody_in(tmp_path: Path, damage: Damage) -> None:
    path, text = tmp_path / "credentials", f"edge {TOKEN} * gateway\n"
    path.write_text(text)
    server = RpcServer(ServerSecurity(Guard(path, grace_s=0.0)))
    server.add(STORE, {}, ready=_ready)
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert await status(channel) is grpc.StatusCode.UNIMPLEMENTED  # admitted: there is no handler
        damage(path)
        assert await status(channel) is grpc.StatusCode.UNAVAILABLE
        restore(path, text)
        assert await status(channel) is grpc.StatusCode.UNIMPLEMENTED
    await server.drain(0)


async def _ready() -> None:
    pass


async def status(channel: grpc.aio.Channel) -> grpc.StatusCode:
    call: Any = channel.unary_unary(STORE.methods["GetResponseRecord"].path)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(b"", metadata=[("authorization", f"Bearer {TOKEN}")], timeout=60)
    return caught.value.code()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_sealer_without_its_keys_seals_and_opens_nothing(tmp_path: Path, damage: Damage) -> None:
    path = tmp_path / "sealing"
    path.write_text(OLD)
    sealer = Sealer.of(path, ttl_s=60, clock=ManualClock(), grace_s=0.0)
    sealed = sealer.seal("acme", "x")
    damage(path)
    with pytest.raises(Unavailable):
        sealer.seal("acme", "x")
    with pytest.raises(Unavailable):
        sealer.open("acme", sealed)
    restore(path, OLD)
    assert sealer.open("acme", sealed) == "x"


@pytest.mark.parametrize("mode", [0o604, 0o640 | 0o004, 0o602, 0o620])
def test_files_that_others_may_read_or_change_are_refused_at_the_start(tmp_path: Path, mode: int) -> None:
    files = KeyFiles(tmp_path)
    files.make("acme")
    files.pepper.chmod(mode)
    with pytest.raises(SettingsError, match="other users"):
        KeyGuard(files.keys, files.pepper, clock=ManualClock())


def test_a_pepper_is_rotated_without_a_restart(tmp_path: Path) -> None:
    """Old keys stay valid while the old line stands below the new one, and not longer."""
    files = KeyFiles(tmp_path)
    secret = files.make("acme")
    guard = KeyGuard(files.keys, files.pepper, clock=ManualClock(), grace_s=0.0)
    old, new = files.pepper.read_text(), "another-pepper-that-is-long-enough\n"
    files.pepper.write_text(new + old)
    assert guard.identify(secret).tenant == "acme"
    files.pepper.write_text(new)
    with pytest.raises(Exception, match="Incorrect API key"):
        guard.identify(secret)


def test_sealing_keys_are_rotated_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "sealing"
    path.write_text(OLD)
    sealer = Sealer.of(path, ttl_s=60, clock=ManualClock())
    first = sealer.seal("acme", "x")
    path.write_text(NEW + OLD)
    second = sealer.seal("acme", "x")
    assert [first.split(".")[1], second.split(".")[1]] == ["old", "new"]
    assert sealer.open("acme", first) == sealer.open("acme", second) == "x"
    path.write_text(NEW)
    with pytest.raises(BadSeal):
        sealer.open("acme", first)
