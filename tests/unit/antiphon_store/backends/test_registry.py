from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from antiphon_core.clock import Clock, ManualClock
from antiphon_core.config import SettingsError
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.redis.backend import RedisRows
from antiphon_store.backends.registry import ENTRY_POINTS, row_backend
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.rows.backend import Durability


def test_memory_needs_no_address() -> None:
    backend = row_backend("memory://")
    assert isinstance(backend, MemoryRows)
    assert backend.durability is Durability.MEMORY


@pytest.mark.parametrize(
    ("url", "path"), [("sqlite:///a/b.db", "a/b.db"), ("sqlite:////var/lib/b.db", "/var/lib/b.db")]
)
def test_sqlite_has_relative_and_absolute_files(url: str, path: str) -> None:
    backend = row_backend(url, durability="process", clock=ManualClock())
    assert isinstance(backend, SqliteRows)
    assert backend._path == Path(path)
    assert backend.durability is Durability.PROCESS


@pytest.mark.parametrize("url", ["redis://a", "rediss://a:1/2", "redis+sentinel://a,b:1/main", "redis+cluster://a,b"])
def test_every_form_of_redis_url_selects_redis(url: str) -> None:
    backend = row_backend(url)
    assert isinstance(backend, RedisRows)
    assert backend.durability is Durability.DISK


def test_durability_is_named_in_settings_by_its_value() -> None:
    assert [level.value for level in Durability] == ["memory", "process", "disk", "quorum"]


def test_the_default_durability_is_disk() -> None:
    assert row_backend("sqlite:///a.db").durability is Durability.DISK


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "no store backend"),
        ("sqlite", "no store backend"),
        ("mysql://x", "Known are: memory://, sqlite://"),
        ("redis://", "redis://HOST:PORT"),
        ("postgresql://host/database?no=such", "not one of PostgreSQL"),
        ("memory://x", "no address"),
        ("sqlite://", "sqlite:///FILE"),
        ("sqlite://host/a.db", "sqlite:///FILE"),
        ("sqlite:///", "sqlite:///FILE"),
        ("sqlite:///folder/", "sqlite:///FILE"),
        ("sqlite:///a.db?mode=ro", "no parameters"),
        ("sqlite:///:memory:", "memory://"),
    ],
)
def test_an_invalid_store_url_is_rejected_with_advice(url: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        row_backend(url)


@pytest.mark.parametrize(
    "url", ["postgres://user:canary@host/database", "user:canary@host", "postgresql://user:can%ary@host/database"]
)
def test_the_error_of_a_url_does_not_show_its_password(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        row_backend(url)
    assert "can" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("durability", ["memory", "quorum", "paper"])
def test_a_durability_that_sqlite_lacks_is_refused(durability: str) -> None:
    with pytest.raises(SettingsError, match=durability):
        row_backend("sqlite:///a.db", durability=durability)


def test_a_postgresql_url_selects_postgresql() -> None:
    backend = row_backend("postgresql://user@host:5432/database?sslmode=require", durability="quorum", migrate=False)
    assert isinstance(backend, PostgresRows)
    assert backend.durability is Durability.QUORUM
    assert backend.migrate is False


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "antiphon_store.backends.postgres.backend", None)
    with pytest.raises(SettingsError, match="antiphon-server\\[postgresql\\]"):
        row_backend("postgresql://host/database")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs another package, which adds a scheme."""
    metadata = tmp_path / "another-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: another\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nanother = {__name__}:another_rows\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or ModuleType(__name__))
    monkeypatch.setattr(sys.modules[__name__], "another_rows", another_rows, raising=False)


def another_rows(address: str, durability: Durability, clock: Clock) -> MemoryRows:
    if address != "here":
        raise SettingsError(f"'another://{address}': write another://here.")
    assert durability is Durability.PROCESS
    return MemoryRows(clock)


@pytest.mark.usefixtures("package")
async def test_an_installed_package_adds_a_scheme() -> None:
    backend = row_backend("another://here", durability="process", clock=ManualClock())
    await backend.open()
    await backend.ready()
    await backend.close()


@pytest.mark.usefixtures("package")
def test_the_error_for_an_unknown_scheme_names_schemes_of_packages() -> None:
    with pytest.raises(SettingsError, match=r"Known are: .*postgresql://, another://"):
        row_backend("nowhere://x")
    with pytest.raises(SettingsError, match="write another://here"):
        row_backend("another://there")


def test_the_scheme_of_a_package_that_is_not_installed_is_unknown() -> None:
    with pytest.raises(SettingsError, match="no store backend"):
        row_backend("another://here")
