"""What the store costs on SQLite, beside bare sqlite3 doing the same work in the same run.

    python tests/bench/store_bench.py [--folder DIR] [--seconds 2]

Prints rates, processor time and ratios. Look at the ratios: the rest is mostly the disk of the machine at hand.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from antiphon_core.ports.store import Record, TurnCommit, TurnRequest
from antiphon_store.backends.base import Durability
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.backends.sqlite.writer import Writer
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft, new_session_id, turn_in

TENANT = "bench"
TEXT = "x" * 1_600  # with its frame about 2 KiB per response
DEPTHS = (1, 10, 100, 300, 990)
WRITERS = 64
SLOW_SYNC_S = 0.004


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to write; its disk is what is measured")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each rate is measured")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        asyncio.run(bench(Path(folder), arguments.seconds))


async def bench(folder: Path, seconds: float) -> None:
    await bench_group_commit(folder, seconds)
    await bench_depth(folder, seconds)


# ---- Group commit ----


async def bench_group_commit(folder: Path, seconds: float) -> None:
    print("Puts per second, each answered when it is durable (durability: disk)")
    alone = bare_puts(folder / "bare.db", seconds, per_transaction=1)
    print_row("  sqlite3, one per transaction", f"{alone:9.0f}", "1.0")
    together = bare_puts(folder / "bare-batch.db", seconds, per_transaction=WRITERS)
    print_row(f"  sqlite3, {WRITERS} per transaction", f"{together:9.0f}", f"{together / alone:.1f}")
    backend = SqliteBackend(folder / "group.db", durability=Durability.DISK)
    await backend.open()
    store = StoreService(backend)
    for writers in (1, 8, WRITERS):
        rate = await puts(store, writers, seconds)
        print_row(f"  store, {writers} writers", f"{rate:9.0f}", f"{rate / alone:.1f}")
    await backend.close()
    print(f"The same with {SLOW_SYNC_S * 1000:.0f} ms per COMMIT, as a disk with slow syncs has it (slept)")
    slow_alone = await slow_puts(folder / "slow-1.db", 1, seconds)
    print_row("  store, 1 writers", f"{slow_alone:9.0f}", "1.0")
    slow_together = await slow_puts(folder / "slow-n.db", WRITERS, seconds)
    print_row(f"  store, {WRITERS} writers", f"{slow_together:9.0f}", f"{slow_together / slow_alone:.1f}")


class SlowDisk(sqlite3.Connection):
    """A connection to a disk that takes its time."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            time.sleep(SLOW_SYNC_S)
        return super().execute(sql, *parameters)


async def slow_puts(path: Path, writers: int, seconds: float) -> float:
    backend = SqliteBackend(path, durability=Durability.PROCESS)
    await backend.open()
    slow = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=SlowDisk)
    backend._writer = Writer(slow)
    rate = await puts(StoreService(backend), writers, seconds)
    await backend.close()
    return rate


async def puts(store: StoreService, writers: int, seconds: float) -> float:
    end = time.perf_counter() + seconds
    count = 0

    async def write() -> None:
        nonlocal count
        while time.perf_counter() < end:
            await store.put(TENANT, draft(text=TEXT))
            count += 1

    await asyncio.gather(*(write() for _ in range(writers)))
    return count / seconds


def bare_puts(path: Path, seconds: float, *, per_transaction: int) -> float:
    connection = bare_connection(path)
    end = time.perf_counter() + seconds
    count = 0
    while time.perf_counter() < end:
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(per_transaction):
            insert_bare(connection, count, draft(text=TEXT))
            count += 1
        connection.execute("COMMIT")
    connection.close()
    return count / seconds


# ---- Depth ----


async def bench_depth(folder: Path, seconds: float) -> None:
    print("\nBeginning and committing a turn against depth, processor ms each (durability: process)")
    print(f"  {'depth':>6} {'after':>8} {'session':>8} {'chain':>8} {'bare':>8}  turn / bare read + insert")
    backend = SqliteBackend(folder / "depth.db", durability=Durability.PROCESS)
    await backend.open()
    store = StoreService(backend)
    bare = bare_connection(folder / "bare-depth.db")
    for depth in DEPTHS:
        session_id = new_session_id()
        tip = await grow(store, session_id, bare, depth)
        after = await processor_ms(lambda tip=tip: turn_after(store, tip), seconds)  # type: ignore[misc]
        chain = await processor_ms(lambda tip=tip: store.chain(TENANT, tip.id), seconds)  # type: ignore[misc]
        plain = await processor_ms(lambda depth=depth: bare_turn(bare, depth), seconds)  # type: ignore[misc]
        held = await processor_ms(lambda s=session_id, t=tip: turn_held(store, s, t), seconds)  # type: ignore[misc]
        print(f"  {depth:6} {after:8.2f} {held:8.2f} {chain:8.2f} {plain:8.2f}  {after / plain:.1f}")
    bare.close()
    await backend.close()


async def grow(store: StoreService, session_id: str, bare: sqlite3.Connection, depth: int) -> Record:
    """A session of so many turns, and the same rows in the bare table."""
    tip: Record | None = None
    bare.execute("DELETE FROM node")
    for number in range(depth):
        start = await store.begin_turn(TENANT, turn_in(session_id))
        tip = draft(tip, text=TEXT, session_id=session_id)
        await store.commit_turn(TENANT, TurnCommit(tip, start.lease.fence if start.lease else None))
        insert_bare(bare, number, tip)
    assert tip is not None
    return tip


async def turn_after(store: StoreService, tip: Record) -> None:
    await store.begin_turn(TENANT, TurnRequest(previous_response_id=tip.id))
    await store.commit_turn(TENANT, TurnCommit(draft(tip, text=TEXT)))


async def turn_held(store: StoreService, session_id: str, tip: Record) -> None:
    start = await store.begin_turn(TENANT, turn_in(session_id))
    record = draft(tip, text=TEXT, session_id=session_id)
    await store.commit_turn(TENANT, TurnCommit(record, start.lease.fence if start.lease else None))


async def bare_turn(connection: sqlite3.Connection, depth: int) -> None:
    """The same reading and writing with nothing around it: no rules, no tree, no lease, no thread."""
    rows = connection.execute("SELECT input, output FROM node WHERE place < ? ORDER BY place", (depth,)).fetchall()
    b"".join([b"[", b",".join([part for row in rows for part in row]), b"]"])
    insert_bare(connection, None, draft(text=TEXT))


def bare_connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE node (place INTEGER PRIMARY KEY, id TEXT, input BLOB, output BLOB, body BLOB)")
    return connection


def insert_bare(connection: sqlite3.Connection, place: int | None, record: Record) -> None:
    row = (place, record.id, record.input_items, record.output_items, record.body)
    connection.execute("INSERT INTO node VALUES (?, ?, ?, ?, ?)", row)


async def processor_ms(work: Callable[[], Awaitable[object]], seconds: float) -> float:
    """Processor time of all threads per call."""
    await work()
    end, count, used = time.perf_counter() + seconds / 4, 0, time.process_time()
    while time.perf_counter() < end:
        await work()
        count += 1
    return (time.process_time() - used) * 1000 / count


def print_row(name: str, value: str, ratio: str) -> None:
    print(f"{name:34} {value}   x {ratio}")


if __name__ == "__main__":
    main()
