"""The row backends, by name: each makes one over data of its own, not yet opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from antiphon_core.clock import Clock
from antiphon_store.backends.base import Durability
from antiphon_store.backends.memory_rows import MemoryRows
from antiphon_store.backends.sqlite.row_backend import SqliteRows
from antiphon_store.rows.backend import RowBackend

ROW_BACKENDS: dict[str, Callable[[Clock, Path], RowBackend]] = {
    "memory": lambda clock, _folder: MemoryRows(clock),
    "sqlite": lambda clock, folder: SqliteRows(folder / "rows.db", durability=Durability.PROCESS, clock=clock),
}
