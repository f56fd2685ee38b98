"""The row backends, by name: each makes one over data of its own, not yet opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from antiphon_core.clock import Clock
from antiphon_store.backends.base import Durability
from antiphon_store.backends.memory_rows import MemoryRows
from antiphon_store.backends.postgres.row_backend import PostgresRows
from antiphon_store.rows.backend import RowBackend
from tests.support.postgres_server import shared_postgres

ROW_BACKENDS: dict[str, Callable[[Clock, Path], RowBackend]] = {
    "memory": lambda clock, _folder: MemoryRows(clock),
    "postgres": lambda clock, _folder: PostgresRows(
        shared_postgres().url, durability=Durability.PROCESS, database_schema="rows", clock=clock
    ),
}
