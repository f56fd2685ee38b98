"""The file as an operator meets it. What the backend does as a store: tests/contract/store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import InternalError, StoreUnavailable
from antiphon_store.backends.base import Durability, Write
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.testing.subject import draft


async def test_folders_are_made_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "deep" / "store.db"
    backend = SqliteBackend(path)
    await backend.open()
    await backend.close()
    assert path.exists()
    assert path.parent.stat().st_mode & 0o077 == 0


async def test_closing_leaves_one_file(path: Path) -> None:
    backend = SqliteBackend(path)
    await backend.open()
    await backend.put("t", Write(draft()))
    await backend.close()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    file = tmp_path / "notes.txt"
    file.write_bytes(b"this is no database" * 100)
    return file


async def test_a_folder_that_cannot_be_made_is_named(text_file: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be made: Not a directory"):
        await SqliteBackend(text_file / "folder" / "store.db").open()


async def test_what_is_no_database_is_refused(text_file: Path) -> None:
    with pytest.raises(StoreUnavailable, match="not an SQLite database"):
        await SqliteBackend(text_file).open()


async def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await SqliteBackend(tmp_path).open()


async def test_two_backends_may_open_a_new_file_at_once(path: Path) -> None:
    backends = [SqliteBackend(path) for _ in range(4)]
    await asyncio.gather(*(backend.open() for backend in backends))
    record = draft()
    await backends[0].put("t", Write(record))
    for backend in backends:
        assert (await backend.fetch("t", record.id)).id == record.id
        await backend.close()


def test_only_what_a_file_can_promise_is_accepted(path: Path) -> None:
    for durability in (Durability.MEMORY, Durability.QUORUM):
        with pytest.raises(SettingsError, match=durability):
            SqliteBackend(path, durability=durability)


async def test_a_removed_table_makes_it_unready(path: Path, clock: ManualClock) -> None:
    backend = SqliteBackend(path, clock=clock)
    await backend.open()
    await backend._writes.run(lambda connection: connection.execute("DROP TABLE node").fetchone())
    with pytest.raises((StoreUnavailable, InternalError)):
        await backend.ready()
    await backend.close()
