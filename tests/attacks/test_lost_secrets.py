"""Attack 11: secret files that are emptied, deleted, replaced by a folder or made readable for all while Antiphon runs.
Authentication fails closed after a grace, a metric reports the file, and a corrected file is used again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from antiphon.settings import SECTIONS
from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError, declared_settings
from antiphon_core.rpc import watched
from antiphon_core.telemetry import metrics
from antiphon_edge.callers.api_keys import KeyGuard
from antiphon_edge.sealed.sealing import BadSeal, Sealer
from antiphon_translator.models.profiles import ModelProfile
from tests.support.api_keys import KeyFiles, bearer
from tests.support.edge import running_edge
from tests.support.secret_holders import HOLDERS, KEEP
from tests.support.unprivileged import obeying_permissions

OLD, NEW = "old " + "0" * 64 + "\n", "new " + "1" * 64 + "\n"


def empty(path: Path) -> None:
    path.write_text("")


def fill_with_junk(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


def replace_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_unreadable(path: Path) -> None:
    path.chmod(0o000)


Damage = Callable[[Path], None]
DAMAGES: list[Damage] = [empty, Path.unlink, fill_with_junk, replace_by_a_folder]
READ_BY_REQUESTS = {"profile.api_key_file", "profile.session_secret_file"}
OPEN_TO_ALL = {name for name in HOLDERS if "tls_" in name} | READ_BY_REQUESTS
"""Settings whose files may have any mode."""


def restore(path: Path, content: bytes) -> None:
    if path.is_dir():
        path.rmdir()
    path.write_bytes(content)
    path.chmod(0o600)


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)


def unusable(setting: str) -> float:
    return metrics.SECRETS_UNUSABLE.of(setting).value


def test_each_setting_of_a_secret_file_has_a_test_holder() -> None:
    """A new setting fails this test until `secret_holders.py` has a holder for its file."""
    named = {
        f"{setting.section}.{setting.field.name}"
        for setting in declared_settings({**SECTIONS, "profile": ModelProfile})
        if setting.field.name.endswith("_file")
    }
    assert named == set(HOLDERS)
    assert named > KEEP


@pytest.mark.parametrize("damage", [*DAMAGES, make_unreadable])
@pytest.mark.parametrize("name", HOLDERS)
async def test_a_damaged_secret_file_fails_closed(tmp_path: Path, name: str, damage: Damage) -> None:
    async with HOLDERS[name](tmp_path) as holder:
        content = holder.path.read_bytes()
        assert (await holder.serves(), await holder.serves_stranger()) == (True, False)
        damage(holder.path)
        with obeying_permissions():
            assert await holder.serves() == (name in KEEP)
            assert not await holder.serves_stranger()
            with pytest.raises(SettingsError) if name not in READ_BY_REQUESTS else nullcontext():
                holder.start()
        restore(holder.path, content)
        assert (await holder.serves(), await holder.serves_stranger()) == (True, False)


@pytest.mark.parametrize("name", sorted({*HOLDERS} - OPEN_TO_ALL))
async def test_a_secret_file_open_to_other_users_fails_closed(tmp_path: Path, name: str) -> None:
    async with HOLDERS[name](tmp_path) as holder:
        holder.path.chmod(0o666)
        assert await holder.serves() == (name in KEEP)
        with pytest.raises(SettingsError, match="other users"):
            holder.start()


@pytest.mark.parametrize("name", ["edge.keys_file", "store.token_file", "store.tls_client_ca_file"])
async def test_a_missing_secret_file_is_reported_by_a_metric(tmp_path: Path, name: str) -> None:
    setting = name if name.startswith("edge") else name.partition(".")[2]
    async with HOLDERS[name](tmp_path) as holder:
        content = holder.path.read_bytes()
        holder.path.unlink()
        await holder.serves()
        assert unusable(setting) == 1
        restore(holder.path, content)
        await holder.serves()
        assert unusable(setting) == 0


async def test_keys_stay_valid_within_the_grace_after_their_file_is_lost(tmp_path: Path) -> None:
    """A rotation that takes a moment must not lock callers out."""
    files = KeyFiles(tmp_path)
    secret = files.make("acme")
    async with running_edge(**files.settings) as edge:
        files.keys.unlink()
        assert (await edge.ask("GET", "/v1/models", headers=bearer(secret))).status == 200
        assert unusable("edge.keys_file") == 1


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602, 0o620])
def test_files_that_others_may_read_or_change_are_refused_at_the_start(tmp_path: Path, mode: int) -> None:
    files = KeyFiles(tmp_path)
    files.make("acme")
    files.pepper.chmod(mode)
    with pytest.raises(SettingsError, match="other users"):
        KeyGuard(files.keys, files.pepper, clock=ManualClock())


def test_a_pepper_is_rotated_without_a_restart(tmp_path: Path) -> None:
    """Old keys stay valid as long as the old line is below the new one."""
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
