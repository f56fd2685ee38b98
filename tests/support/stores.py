"""Unopened rows and stores in memory that a test may damage."""

from __future__ import annotations

from antiphon_core.clock import Clock
from antiphon_core.ids import tree_tag
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.rows.model import Applied, Change, Delete, Get, Kind, Partition, Payload, Program, Ref, Row
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.wrapper import Wrapper


def tree_of(tagged_id: str) -> str:
    """Returns the tree of a response, or of a session whose id has the tag of a tree."""
    tag = tree_tag(tagged_id)
    assert tag is not None
    return tag


class ReachableRows(MemoryRows):
    """Rows in memory that tests read and change directly, without the rules of the store."""

    async def row(self, tenant: str, tree: str, kind: Kind, row_id: str) -> Row | None:
        """Returns a row with its payloads."""
        read = Get(Ref(kind, row_id), Payload.ALL)
        outcome = await self.transact(Partition(tenant, tree), Program(reads=[read]))
        assert isinstance(outcome, Applied)
        found: Row | None = outcome.answers[0]
        return found

    def stored(self, kind: Kind = Kind.NODE) -> dict[tuple[str, str], Row]:
        """Returns the rows of a kind, by tenant and id."""
        return {
            (partition.tenant, ref.id): row
            for partition, tree in self.trees.items()
            for ref, row in tree.rows.items()
            if ref.kind is kind
        }

    async def lose(self, tenant: str, kind: Kind, response_id: str) -> None:
        """Removes a row with the id of a response, or of its log or job."""
        await self.change(tenant, tree_of(response_id), Delete(Ref(kind, response_id)))

    async def change(self, tenant: str, tree: str, *changes: Change) -> None:
        await self.transact(Partition(tenant, tree), Program(changes=changes))


class MemoryStore(Wrapper):
    """A store in memory whose operations tests override and whose rows they access."""

    def __init__(self, clock: Clock | None = None, settings: StoreSettings | None = None) -> None:
        self.rows = ReachableRows(clock)
        super().__init__(StoreService(self.rows, settings))
