"""Cases of PostgreSQL's backups only. tests/faults/store/test_backups_under_load.py makes backups under load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.operations import postgres_backup
from antiphon.operations.files import OperationError
from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres import connections
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.rows.model import Applied, Get, Kind, Partition, Payload, Program, Put, Ref
from tests.support.postgres_server import new_database

PARTITION, REF = Partition("acme", "tree"), Ref(Kind.SESSION, "s")
WRITE = Program(changes=[Put(REF, {"n": 1}, b"items \xff\x00", bytes(range(256)) * 12_000)])


def ignore_progress(_count: int) -> None:
    """Ignores the progress."""


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTION_WAIT_S", 30.0)
    monkeypatch.setattr(connections, "ATOM_TIMEOUT_S", 30.0)


@pytest.fixture
def url() -> str:
    return new_database()


@pytest.fixture
def backup(url: str, tmp_path: Path) -> Path:
    async def make() -> None:
        rows = PostgresRows(url)
        await rows.open()
        await rows.transact(PARTITION, WRITE)
        await rows.close()
        await postgres_backup.backup(url, tmp_path / "backup", ignore_progress)

    asyncio.run(make())
    return tmp_path / "backup"


def restore(url: str, file: Path) -> None:
    asyncio.run(postgres_backup.restore(url, file, ignore_progress))


async def start(url: str) -> None:
    """Makes the tables of an empty store."""
    rows = PostgresRows(url)
    await rows.open()
    await rows.close()


async def read(url: str) -> object:
    rows = PostgresRows(url)
    await rows.open()
    outcome = await rows.transact(PARTITION, Program(reads=[Get(REF, Payload.ALL)]))
    await rows.close()
    assert isinstance(outcome, Applied)
    return outcome.answers[0]


@pytest.mark.parametrize("was_started", [False, True])
def test_rows_come_back_byte_by_byte_in_an_empty_database(backup: Path, was_started: bool) -> None:
    url = new_database()
    if was_started:
        asyncio.run(start(url))
    restore(url, backup)
    assert asyncio.run(read(url)) == ({"n": 1, "v": 1}, b"items \xff\x00", bytes(range(256)) * 12_000)
    assert backup.stat().st_mode & 0o777 == 0o600


def test_existing_data_is_not_overwritten_by_backup_or_restore(url: str, backup: Path) -> None:
    content = backup.read_bytes()
    with pytest.raises(OperationError, match="holds data already"):
        restore(url, backup)
    with pytest.raises(OperationError, match="exists already"):
        asyncio.run(postgres_backup.backup(url, backup, ignore_progress))
    assert backup.read_bytes() == content


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-4000])


def flip_bytes(file: Path) -> None:
    content = bytearray(file.read_bytes())
    place = content.index(b"\x78\x01")  # where the first compressed table begins
    content[place + 50 : place + 60] = b"\x55" * 10
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (cut_off, "pg_restore failed"),
        (flip_bytes, "pg_restore failed"),
        (lambda file: file.write_bytes(b""), "is not a backup"),
        (lambda file: file.write_bytes(b"SQLite format 3\x00" * 100), "is not a backup"),
    ],
)
def test_an_invalid_backup_restores_nothing(backup: Path, spoil: Callable[[Path], object], says: str) -> None:
    spoil(backup)
    url = new_database()
    with pytest.raises(OperationError, match=says):
        restore(url, backup)
    assert asyncio.run(read(url)) is None


def test_a_database_without_a_store_has_no_backup(url: str, tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="no store"):
        asyncio.run(postgres_backup.backup(url, tmp_path / "backup", ignore_progress))
    assert list(tmp_path.iterdir()) == []


def test_a_backup_of_an_unreachable_server_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        asyncio.run(postgres_backup.backup("postgresql://127.0.0.1:1/none", tmp_path / "backup", ignore_progress))
    assert list(tmp_path.iterdir()) == []


def test_missing_tools_are_named(url: str, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperationError, match="pg_dump is not installed"):
        asyncio.run(postgres_backup.backup(url, tmp_path / "other", ignore_progress))
    with pytest.raises(OperationError, match="pg_restore is not installed"):
        restore(new_database(), backup)


def test_the_password_is_not_in_the_command_line(
    url: str, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "pg_dump"
    tool.write_text('#!/bin/sh\necho "$@ $PGPASSWORD" >&2\nexit 1\n')
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    secret = url.replace("postgres@", "postgres:hunter2@")
    with pytest.raises(OperationError) as caught:
        asyncio.run(postgres_backup.backup(secret, tmp_path / "other", ignore_progress))
    assert str(caught.value).count("hunter2") == 1
    assert str(caught.value).endswith(" hunter2")
