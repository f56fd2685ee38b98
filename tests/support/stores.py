"""Stores over rows, not yet opened: of each database, and one in memory that a test may break."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from antiphon_core.clock import Clock
from antiphon_core.ids import tree_tag
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.model import Applied, Change, Delete, Get, Kind, Partition, Payload, Program, Ref, Row
from antiphon_store.testing.wrapper import Wrapper


def sqlite_store(path: Path, *, durability: Durability = Durability.DISK, clock: Clock | None = None) -> StoreEngine:
    return StoreEngine(SqliteRows(path, durability=durability, clock=clock))


def postgres_store(url: str, **options: Any) -> StoreEngine:
    """With the options of `PostgresRows`."""
    return StoreEngine(PostgresRows(url, **options))


def tree_of(tagged_id: str) -> str:
    """The tree of a response, or of a session whose id has its tag."""
    tag = tree_tag(tagged_id)
    assert tag is not None
    return tag


class MemoryStore(Wrapper):
    """A store in memory. Tests override its operations, and reach its rows."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.rows = MemoryRows(clock)
        super().__init__(StoreEngine(self.rows))

    async def row(self, tenant: str, tree: str, kind: Kind, row_id: str) -> Row | None:
        """A row with its payloads."""
        read = Get(Ref(kind, row_id), Payload.ALL)
        outcome = await self.rows.transact(Partition(tenant, tree), Program(reads=[read]))
        assert isinstance(outcome, Applied)
        found: Row | None = outcome.answers[0]
        return found

    def stored(self, kind: Kind = Kind.NODE) -> dict[tuple[str, str], Row]:
        """The rows of a kind, by tenant and id."""
        return {
            (partition.tenant, ref.id): row
            for partition, tree in self.rows.trees.items()
            for ref, row in tree.rows.items()
            if ref.kind is kind
        }

    async def lose(self, tenant: str, kind: Kind, response_id: str) -> None:
        """Takes a row away that has the id of a response, or of a response's log or job."""
        await self.change(tenant, tree_of(response_id), Delete(Ref(kind, response_id)))

    async def change(self, tenant: str, tree: str, *changes: Change) -> None:
        """Changes rows behind the back of every rule."""
        await self.rows.transact(Partition(tenant, tree), Program(changes=changes))
