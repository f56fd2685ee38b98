from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable
from antiphon_core.sealing_keys import SealingKeys
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.encryption.configured_rows import MARKER, require_readable, rows_of, seal_rows
from antiphon_store.encryption.sealed_rows import SealedRows
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.model import (
    Applied,
    Get,
    Kind,
    Outcome,
    Partition,
    Payload,
    Program,
    Put,
    Ref,
    brings_rows,
)
from antiphon_store.settings import StoreSettings

OLD, NEW = f"old {'0' * 64}\n", f"new {'1' * 64}\n"


class Rows(MemoryRows):
    """Rows whose database may be full."""

    is_full = False

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        if self.is_full and brings_rows(program):
            raise StoreUnavailable("The disk is full.", full=True)
        return await super().transact(partition, program)


class Database:
    """Rows that outlive the stores that open them with different settings."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.rows = Rows()

    async def start(self, keys: str | None, *, writes: bool = True) -> RowBackend:
        """Opens the rows like a store that starts. Raises SettingsError for wrong keys."""
        await self.rows.open()
        if keys is None:
            await require_readable(self.rows, StoreSettings())
            return self.rows
        path = self._folder / "keys"
        path.write_text(keys)
        settings = StoreSettings(encryption_keys_file=path)
        rows = seal_rows(self.rows, SealingKeys.read(path))
        await require_readable(rows, settings, writes=writes)
        return rows


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path)


async def test_a_store_without_keys_has_no_encryption_marker(database: Database) -> None:
    await database.start(None)
    assert MARKER not in database.rows.trees


async def test_a_sealed_store_does_not_start_without_its_keys(database: Database) -> None:
    await database.start(OLD)
    await database.start(OLD)
    for keys in (NEW, OLD.replace("0", "2")):
        with pytest.raises(SettingsError, match="does not hold the key"):
            await database.start(keys)
    with pytest.raises(SettingsError, match="This store is sealed: set store.encryption_keys_file"):
        await database.start(None)


async def test_a_database_that_is_away_is_no_wrong_key(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("The store cannot be used: its database cannot be reached.")

    await database.start(OLD)
    monkeypatch.setattr(database.rows, "transact", away)
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        await database.start(OLD)


async def test_opening_a_plain_store_read_only_with_keys_does_not_seal_it(database: Database) -> None:
    await database.start(OLD, writes=False)
    await database.start(None)


async def test_a_store_starts_without_the_old_key_after_a_rotation(database: Database) -> None:
    await database.start(OLD)
    await database.start(NEW + OLD)
    await database.start(NEW)


async def test_a_full_store_starts_with_the_marker_that_it_has(database: Database) -> None:
    database.rows.is_full = True
    with pytest.raises(StoreUnavailable):
        await database.start(OLD)
    database.rows.is_full = False
    await database.start(OLD)
    database.rows.is_full = True
    await database.start(NEW + OLD)


def test_rows_are_sealed_only_with_an_encryption_keys_file(tmp_path: Path) -> None:
    assert isinstance(rows_of(StoreSettings()), MemoryRows)
    keys = tmp_path / "keys"
    keys.write_text(OLD)
    assert isinstance(rows_of(StoreSettings(encryption_keys_file=keys)), SealedRows)
    keys.write_text("")
    with pytest.raises(SettingsError, match="holds no keys"):
        rows_of(StoreSettings(encryption_keys_file=keys))


async def test_another_key_under_an_id_that_was_read_before_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("antiphon_core.rpc.watched.LOOK_INTERVAL_S", 0.0)
    path = tmp_path / "keys"
    path.write_text(OLD)
    path.chmod(0o600)
    rows = rows_of(StoreSettings(encryption_keys_file=path))
    await rows.open()
    ref = Ref(Kind.JOB, "a")
    partition, read = Partition("t", "0f"), Program(reads=[Get(ref, Payload.ALL)])
    await rows.transact(partition, Program(changes=[Put(ref, {}, body=b"text")]))
    path.write_text(NEW + OLD.replace("0", "2"))
    found = await rows.transact(partition, read)
    assert isinstance(found, Applied)
    assert found.answers[0].body == b"text"
    assert "another key under the id old" in caplog.text
    path.write_text(NEW + OLD)
    found = await rows.transact(partition, read)
    assert isinstance(found, Applied)
    assert found.answers[0].body == b"text"
