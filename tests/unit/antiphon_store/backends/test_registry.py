from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError
from antiphon_store.backends.base import Durability
from antiphon_store.backends.memory_rows import MemoryRows
from antiphon_store.backends.postgres.row_backend import PostgresRows
from antiphon_store.backends.redis.row_backend import RedisRows
from antiphon_store.backends.registry import open_backend
from antiphon_store.backends.sqlite.row_backend import SqliteRows
from antiphon_store.engine.facade import RowEngine
from antiphon_store.rows.backend import RowBackend


def rows_at(url: str, **options: Any) -> RowBackend:
    """The rows that a URL leads to."""
    engine = open_backend(url, **options)
    assert isinstance(engine, RowEngine)
    return engine._rows


def test_memory_needs_no_address() -> None:
    backend = rows_at("memory://")
    assert isinstance(backend, MemoryRows)
    assert backend.durability is Durability.MEMORY


@pytest.mark.parametrize(
    ("url", "path"), [("sqlite:///a/b.db", "a/b.db"), ("sqlite:////var/lib/b.db", "/var/lib/b.db")]
)
def test_sqlite_has_relative_and_absolute_files(url: str, path: str) -> None:
    backend = rows_at(url, durability="process", clock=ManualClock())
    assert isinstance(backend, SqliteRows)
    assert backend._path == Path(path)
    assert backend.durability is Durability.PROCESS


@pytest.mark.parametrize("url", ["redis://a", "rediss://a:1/2", "redis+sentinel://a,b:1/main", "redis+cluster://a,b"])
def test_redis_has_four_forms(url: str) -> None:
    backend = rows_at(url)
    assert isinstance(backend, RedisRows)
    assert backend.durability is Durability.DISK


def test_durable_unless_said_otherwise() -> None:
    assert open_backend("sqlite:///a.db").durability is Durability.DISK


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
def test_other_urls_are_refused_with_advice(url: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        open_backend(url)


@pytest.mark.parametrize("durability", ["memory", "quorum", "paper"])
def test_a_durability_that_sqlite_lacks_is_refused(durability: str) -> None:
    with pytest.raises(SettingsError, match=durability):
        open_backend("sqlite:///a.db", durability=durability)


def test_postgresql_is_named_by_a_url_of_its_own() -> None:
    backend = rows_at("postgresql://user@host:5432/database?sslmode=require", durability="quorum", migrate=False)
    assert isinstance(backend, PostgresRows)
    assert backend.durability is Durability.QUORUM
    assert backend.migrate is False


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "antiphon_store.backends.postgres.row_backend", None)
    with pytest.raises(SettingsError, match="antiphon\\[postgresql\\]"):
        open_backend("postgresql://host/database")
