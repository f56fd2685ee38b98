"""The backend: each primitive is a function of an LMDB transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from antiphon_core.clock import Clock, SystemClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_lmdb.data_file import MARK, DataFile
from antiphon_lmdb.keys import Transaction, tenants
from antiphon_lmdb.tree_rows import TreeRows
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.decision import Decision
from antiphon_store.rows.local import decide
from antiphon_store.rows.model import Entry, Index, Kind, Outcome, Partition, Program, Ref, named_node

_Answer = TypeVar("_Answer")


class LmdbRows:
    """Implements `rows.backend.RowBackend` and `rows.local.LocalRowBackend`. Several processes of one machine may open
    the same file; their writes take turns. What a volatile program changes is durable here, like all other changes."""

    def __init__(self, path: Path, *, durability: Durability = Durability.DISK, clock: Clock | None = None) -> None:
        if durability not in (Durability.DISK, Durability.PROCESS):
            raise SettingsError(f"LMDB's durability is 'disk' or 'process', not '{durability}'.")
        self.durability = durability
        self._path = path
        self._clock = clock or SystemClock()
        self._opened: DataFile | None = None

    async def open(self) -> None:
        if self._opened is None:
            self._opened = await asyncio.to_thread(DataFile, self._path, is_synced=self.durability is Durability.DISK)

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def ready(self) -> None:
        await self._file.read(lambda transaction: transaction.get(MARK))

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        run = self._file.write if program.changes else self._file.read
        return await run(lambda transaction: TreeRows(transaction, partition, self._clock.now_ms()).run(program))

    async def decide(self, partition: Partition, decision: Decision[_Answer], *, only_reads: bool) -> _Answer:
        def primitive(transaction: Transaction) -> _Answer | AntiphonError:
            rows = TreeRows(transaction, partition, self._clock.now_ms())
            try:
                return decide(rows, decision)
            except AntiphonError as error:
                if rows.has_changed:
                    raise
                error.__traceback__ = error.__cause__ = error.__context__ = None  # frames would keep LMDB's reader slot
                return error

        answer = await (self._file.read if only_reads else self._file.write)(primitive)
        if isinstance(answer, AntiphonError):
            raise answer
        return answer

    async def page(
        self,
        partition: Partition,
        index: Index,
        key: str,
        *,
        after: tuple[int, str] | None,
        limit: int,
        descending: bool = False,
        with_rows: bool = False,
    ) -> tuple[int, Sequence[Entry]]:
        def read(transaction: Transaction) -> tuple[int, Sequence[Entry]]:
            rows = TreeRows(transaction, partition, self._clock.now_ms())
            found = rows.page(index, key, after=after, limit=limit, descending=descending)
            if with_rows:
                found = [each._replace(row=rows.row(Ref(Kind.NODE, named_node(each.id)))) for each in found]
            return rows.now_ms, found

        return await self._file.read(read)

    async def subtree(
        self, partition: Partition, starts: Sequence[str], *, max_nodes: int, levels: int | None = None
    ) -> tuple[int, Sequence[Entry]]:
        def read(transaction: Transaction) -> tuple[int, Sequence[Entry]]:
            rows = TreeRows(transaction, partition, self._clock.now_ms())
            return rows.now_ms, list(islice(rows.below(starts, levels), max_nodes))

        return await self._file.read(read)

    async def take_due(self, tenant: str, index: Index, key: str, *, limit: int, hide_ms: int) -> Sequence[Entry]:
        def take(transaction: Transaction) -> Sequence[Entry]:
            rows = TreeRows(transaction, Partition(tenant, ""), self._clock.now_ms())
            return rows.take_due(index, key, limit=limit, hide_ms=hide_ms)

        return await self._file.write(take)

    async def tenants(self) -> Sequence[str]:
        return await self._file.read(lambda transaction: list(tenants(transaction)))

    @property
    def _file(self) -> DataFile:
        if self._opened is None:
            raise StoreUnavailable("The store is not open.")
        return self._opened


def lmdb_rows(address: str, durability: Durability, clock: Clock) -> LmdbRows:
    """Makes the backend that `lmdb://ADDRESS` names: the entry point of this package. SettingsError."""
    if not address.startswith("/") or address.endswith("/") or "?" in address:
        raise SettingsError(f"'lmdb://{address}': write lmdb:///FILE, or lmdb:////FOLDER/FILE for an absolute path.")
    return LmdbRows(Path(address[1:]), durability=durability, clock=clock)
