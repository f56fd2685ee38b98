"""Cases of PostgreSQL's backups only. tests/faults/store/test_backups_under_load.py makes backups under load."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.postgres import schema as schemas
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.operations.files import OperationError
from antiphon_store.rows.model import Applied, Get, Kind, Partition, Payload, Program, Put, Ref
from tests.support.postgres_server import new_schema

PARTITION, REF = Partition("acme", "tree"), Ref(Kind.JOB, "j")
WRITE = Program(changes=[Put(REF, {"n": 1}, b"items \xff\x00", b"b" * 3_000_000)])


def ignore_progress(_count: int) -> None:
    """Ignores the progress."""


def rows_in(url: str, schema: str) -> PostgresRows:
    return PostgresRows(url, database_schema=schema)


@pytest.fixture
def backup(url: str, schema: str, tmp_path: Path) -> Path:
    async def make() -> None:
        rows = rows_in(url, schema)
        await rows.open()
        await rows.transact(PARTITION, WRITE)
        await rows.close()
        await rows.maintenance.backup(tmp_path / "backup", ignore_progress)

    asyncio.run(make())
    return tmp_path / "backup"


def restore(url: str, schema: str, file: Path) -> None:
    asyncio.run(rows_in(url, schema).maintenance.restore(file, ignore_progress))


def test_rows_come_back_byte_by_byte(url: str, backup: Path) -> None:
    schema = new_schema()
    restore(url, schema, backup)

    async def read() -> None:
        rows = rows_in(url, schema)
        await rows.open()
        outcome = await rows.transact(PARTITION, Program(reads=[Get(REF, Payload.ALL)]))
        await rows.close()
        assert isinstance(outcome, Applied)
        assert outcome.answers == [({"n": 1, "v": 1}, b"items \xff\x00", b"b" * 3_000_000)]

    asyncio.run(read())
    assert backup.stat().st_mode & 0o777 == 0o600


def test_existing_data_is_not_overwritten_by_backup_or_restore(url: str, schema: str, backup: Path) -> None:
    content = backup.read_bytes()
    with pytest.raises(OperationError, match="holds data already"):
        restore(url, schema, backup)
    with pytest.raises(OperationError, match="exists already"):
        asyncio.run(rows_in(url, schema).maintenance.backup(backup, ignore_progress))
    assert backup.read_bytes() == content


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    with zipfile.ZipFile(file) as archive:
        place = archive.getinfo("stored_row").header_offset + 100
    content[place] ^= 0xFF
    file.write_bytes(content)


def foreign(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("readme", b"")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (cut_off, "damaged, cut off"),
        (flip_a_byte, "damaged, cut off"),
        (foreign, "not a backup"),
        (lambda file: file.write_bytes(b"SQLite format 3\x00" * 100), "not a backup"),
    ],
)
def test_an_invalid_backup_is_not_restored(url: str, backup: Path, spoil: Callable[[Path], object], says: str) -> None:
    spoil(backup)
    schema = new_schema()
    with pytest.raises(OperationError, match=says):
        restore(url, schema, backup)
    asyncio.run(_require_empty(rows_in(url, schema)))


async def _require_empty(rows: PostgresRows) -> None:
    await rows.open()
    assert [each async for each in rows.maintenance.partitions()] == []
    await rows.close()


def test_a_backup_of_another_schema_version_is_refused(url: str, backup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "VERSION", schemas.VERSION + 1)
    with pytest.raises(OperationError, match="Restore it with the release that made it"):
        restore(url, new_schema(), backup)


def test_a_database_without_a_store_has_no_backup(url: str, tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="no store"):
        asyncio.run(rows_in(url, new_schema()).maintenance.backup(tmp_path / "backup", ignore_progress))
    assert list(tmp_path.iterdir()) == []


def test_a_backup_of_an_unreachable_server_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        asyncio.run(
            rows_in("postgresql://127.0.0.1:1/none", "s").maintenance.backup(tmp_path / "backup", ignore_progress)
        )
    assert list(tmp_path.iterdir()) == []
