from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError
from antiphon_store.backends.base import Durability
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.backends.registry import BACKENDS, PLANNED, open_backend
from antiphon_store.backends.sqlite.backend import SqliteBackend


def test_memory_needs_no_address() -> None:
    backend = open_backend("memory://")
    assert isinstance(backend, MemoryBackend)
    assert backend.durability is Durability.MEMORY


@pytest.mark.parametrize(
    ("url", "path"), [("sqlite:///a/b.db", "a/b.db"), ("sqlite:////var/lib/b.db", "/var/lib/b.db")]
)
def test_sqlite_has_relative_and_absolute_files(url: str, path: str) -> None:
    backend = open_backend(url, durability="process", clock=ManualClock())
    assert isinstance(backend, SqliteBackend)
    assert backend._path == Path(path)
    assert backend.durability is Durability.PROCESS


def test_durable_unless_said_otherwise() -> None:
    assert open_backend("sqlite:///a.db").durability is Durability.DISK


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "no store backend"),
        ("sqlite", "no store backend"),
        ("mysql://x", "Known are: memory://, sqlite://"),
        ("redis://localhost", "planned"),
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


def test_nothing_is_both_here_and_planned() -> None:
    assert not PLANNED & set(BACKENDS)
