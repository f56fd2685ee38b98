"""The backend: each step on local rows is a function of an LMDB transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from antiphon_core.clock import Clock, SystemClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable
from antiphon_lmdb.data_file import MARK, DataFile
from antiphon_lmdb.keys import Transaction, tenants
from antiphon_lmdb.tree_rows import TreeRows
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.local import LocalBackend
from antiphon_store.rows.local_rows import LocalRows
from antiphon_store.rows.model import Partition

_Answer = TypeVar("_Answer")


class LmdbRows(LocalBackend):
    """Implements `rows.backend.RowBackend`. Several processes of one machine may open
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

    async def tenants(self) -> Sequence[str]:
        return await self._file.read(lambda transaction: list(tenants(transaction)))

    async def step(self, partition: Partition, work: Callable[[LocalRows], _Answer], *, only_reads: bool) -> _Answer:
        def primitive(transaction: Transaction) -> _Answer:
            answer = work(TreeRows(transaction, partition, self._clock.now_ms()))
            if isinstance(answer, Exception):  # its frames would keep LMDB's reader slot
                answer.__traceback__ = answer.__cause__ = answer.__context__ = None
            return answer

        return await (self._file.read if only_reads else self._file.write)(primitive)

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
