from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from antiphon.operations import sqlite_backup
from antiphon.operations.files import OperationError
from antiphon_store.backends.sqlite.connection import connect
from antiphon_store.backends.sqlite.schema import prepare
from antiphon_store.rows.backend import Durability


def ignore_progress(_count: int) -> None:
    """Ignores the progress."""


def backup(path: Path, file: Path) -> None:
    asyncio.run(sqlite_backup.backup(path, file, ignore_progress))


def restore(path: Path, file: Path) -> None:
    asyncio.run(sqlite_backup.restore(path, file, ignore_progress))


def rows_of(path: Path) -> list[bytes]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return [body for (body,) in connection.execute("SELECT body FROM filler ORDER BY body")]
    finally:
        connection.close()


def write(connection: sqlite3.Connection, body: bytes) -> None:
    connection.execute("INSERT INTO filler VALUES (?)", (body,))


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store") / "store.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(path, Durability.PROCESS)
    prepare(connection)
    yield connection
    connection.close()


@pytest.fixture
def store(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute("CREATE TABLE filler (body BLOB)")
    for number in range(30):
        write(connection, b"%04d" % number * 2000)
    return connection


def test_a_backup_during_writes_is_a_snapshot_and_does_not_restart(
    store: sqlite3.Connection, path: Path, tmp_path: Path
) -> None:
    before = rows_of(path)
    (pages,) = store.execute("PRAGMA page_count").fetchone()
    steps = 0

    def write_meanwhile(_count: int) -> None:
        nonlocal steps
        steps += 1
        assert steps <= pages, "it began again"
        write(store, b"later")

    asyncio.run(sqlite_backup.backup(path, tmp_path / "backup", write_meanwhile, pages_at_once=1))
    assert steps == pages
    assert rows_of(tmp_path / "backup") == before
    assert rows_of(path) == [*before, *[b"later"] * pages]


def test_a_backup_is_one_private_file_and_is_unchanged_by_a_restore(
    store: sqlite3.Connection, path: Path, tmp_path: Path
) -> None:
    backup(path, tmp_path / "backup")
    assert [each.name for each in tmp_path.iterdir()] == ["backup"]
    assert (tmp_path / "backup").stat().st_mode & 0o777 == 0o600
    content = (tmp_path / "backup").read_bytes()
    restore(tmp_path / "folder" / "restored", tmp_path / "backup")
    assert (tmp_path / "backup").read_bytes() == content
    assert [each.name for each in (tmp_path / "folder").iterdir()] == ["restored"]
    assert rows_of(tmp_path / "folder" / "restored") == rows_of(path)


def test_existing_data_is_not_overwritten_by_backup_or_restore(
    store: sqlite3.Connection, path: Path, tmp_path: Path
) -> None:
    backup(path, tmp_path / "backup")
    content = path.read_bytes()
    with pytest.raises(OperationError, match="exists already"):
        restore(path, tmp_path / "backup")
    with pytest.raises(OperationError, match="exists already"):
        backup(path, tmp_path / "backup")
    assert path.read_bytes() == content


def test_a_backup_is_not_restored_beside_the_log_of_a_former_file(
    store: sqlite3.Connection, path: Path, tmp_path: Path
) -> None:
    backup(path, tmp_path / "backup")
    for suffix in ("-wal", "-journal"):
        log = tmp_path / f"restored{suffix}"
        log.write_bytes(b"changes of the former file")
        with pytest.raises(OperationError, match=f"{log.name} is left of a former file"):
            restore(tmp_path / "restored", tmp_path / "backup")
        assert not (tmp_path / "restored").exists()
        log.unlink()
    restore(tmp_path / "restored", tmp_path / "backup")
    assert rows_of(tmp_path / "restored") == rows_of(path)


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[3 * 8192 : 6 * 8192] = b"\x55" * (3 * 8192)
    path.write_bytes(content)


def newer(path: Path) -> None:
    connection = connect(path, Durability.PROCESS)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path.write_bytes(b"PK not a database" * 100), "is not a SQLite store"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.unlink(), "does not exist"),
        (damage, "damaged"),
        (newer, "made by a newer release"),
    ],
)
def test_an_invalid_backup_is_not_restored(
    connection: sqlite3.Connection, path: Path, tmp_path: Path, spoil: Callable[[Path], object], says: str
) -> None:
    backup(path, tmp_path / "backup")
    spoil(tmp_path / "backup")
    with pytest.raises(OperationError, match=says):
        restore(tmp_path / "restored", tmp_path / "backup")
    assert not (tmp_path / "restored").exists()


def test_a_store_that_is_not_there_has_no_backup(tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="does not exist"):
        backup(tmp_path / "none.db", tmp_path / "backup")
    assert list(tmp_path.iterdir()) == []


def test_a_restored_file_is_a_store(path: Path, tmp_path: Path) -> None:
    made = connect(path, Durability.PROCESS)
    prepare(made)
    made.close()
    backup(path, tmp_path / "backup")
    restore(tmp_path / "restored", tmp_path / "backup")
    restored = connect(tmp_path / "restored", Durability.PROCESS)
    prepare(restored)
    restored.close()
