"""Measures the gain of group commit on SQLite, on this machine's disk and on one whose syncs take 4 ms more.

    python -m benchmarks.group_commit_bench

Each put is answered when it is durable. The slow disk is this machine's disk with a pause in every COMMIT.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.backends.sqlite.transactions import WRITES_TOGETHER, Transactions, write
from antiphon_store.rows.backend import Durability
from antiphon_store.service import StoreService
from benchmarks.measuring import print_table, time_calls
from benchmarks.store.sides import Port

WRITERS = (1, 8, 64)
PUTS_PER_WRITER = 100
SLOW_SYNC_S = 0.004


class SlowDisk(sqlite3.Connection):
    """A connection to a simulated slow disk."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            time.sleep(SLOW_SYNC_S)
        return super().execute(sql, *parameters)


async def rates(path: Path, *, slow: bool) -> list[float]:
    """Returns puts per second, by number of writers."""
    rows = SqliteRows(path, durability=Durability.DISK)
    backend = StoreService(rows)
    await backend.open()
    if slow:
        assert rows._writing is not None
        await rows._writing.close()
        disk = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=SlowDisk)
        rows._writing = Transactions([disk], write, together=WRITES_TOGETHER)
    side = Port(backend)
    timings = [await time_calls(side.put, PUTS_PER_WRITER * writers, writers) for writers in WRITERS]
    await backend.close()
    return [timing.rate for timing in timings]


async def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, slow in (("this disk", False), (f"and {SLOW_SYNC_S * 1000:.0f} ms a commit", True)):
            found = await rates(Path(folder) / f"{slow}.db", slow=slow)
            rows.append([name, *(f"{rate:,.0f}" for rate in found), f"{found[-1] / found[0]:.1f}"])
    headings = ["", *(f"{writers} at once" for writers in WRITERS), "gain"]
    print_table("Puts per second on SQLite, each durable when it is answered", headings, rows)


if __name__ == "__main__":
    asyncio.run(main())
