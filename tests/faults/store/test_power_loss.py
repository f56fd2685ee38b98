"""Power loss under SQLite: at any moment, unflushed changes are lost, kept or torn, and every acknowledged response is
there with a whole chain. The disk: tests/support/sqlite_disk.py."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from pathlib import Path

from antiphon_core.ports.store import Record, TurnCommit
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.rows.backend import Durability
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from tests.faults.store.acknowledged import TENANT, Lost, require_all
from tests.support.sqlite_disk import Disk, recording
from tests.support.volume import volume

WRITERS = 16
CUTS = volume(12, 240)
BETWEEN = 40  # acknowledged responses between two cuts
CHANCES = (0.0, 0.5, 0.9)  # probabilities that an unflushed change is kept


async def write_and_cut(folder: Path, durability: Durability) -> tuple[Disk, list[tuple[Path, list[Record]]]]:
    """The files that each power cut leaves, and the records acknowledged before it. Each cut is a copy of the files: no
    power is really cut."""
    cuts: list[tuple[Path, list[Record]]] = []
    acknowledged: list[Record] = []
    dice, over = random.Random(3), asyncio.Event()

    async def write(store: StoreService) -> None:
        parent = None
        while not over.is_set():
            record = draft(parent, text="x" * dice.randrange(20_000))
            await store.commit_turn(TENANT, TurnCommit(record))
            acknowledged.append(record)
            parent = record

    async def cut(disk: Disk) -> None:
        for number in range(CUTS):
            while len(acknowledged) < BETWEEN * (number + 1):
                await asyncio.sleep(dice.random() / 200)  # at a random moment of the writing thread
            known = list(acknowledged)
            left = folder / f"cut-{number}"
            left.mkdir()
            disk.leave(left, dice, chance=CHANCES[number % len(CHANCES)])
            cuts.append((left / "store.db", known))
        over.set()

    with recording() as disk:
        backend = SqliteRows(folder / "store.db", durability=durability)
        await backend.open()
        await asyncio.gather(cut(disk), *(write(StoreService(backend)) for _ in range(WRITERS)))
        flushes = {Path(path).name: file.flushes for path, file in disk.files.items()}
        await backend.close()
    assert flushes["store.db"] > 1, "no checkpoint came into it"
    return disk, cuts


async def require_whole(path: Path, acknowledged: list[Record]) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    backend = SqliteRows(path)
    await backend.open()
    try:
        await require_all(StoreService(backend), acknowledged)
    finally:
        await backend.close()


async def test_acknowledged_writes_survive_a_power_cut_at_any_moment(tmp_path: Path) -> None:
    _disk, cuts = await write_and_cut(tmp_path, Durability.DISK)
    for path, acknowledged in cuts:
        await require_whole(path, acknowledged)


async def test_writes_at_durability_process_are_lost_in_a_power_cut(tmp_path: Path) -> None:
    """Proves that the cuts lose data: durability `process` promises nothing here."""
    _disk, cuts = await write_and_cut(tmp_path, Durability.PROCESS)
    lost = 0
    for path, acknowledged in cuts:
        try:
            await require_whole(path, acknowledged)
        except Lost:
            lost += 1
    assert lost > CUTS // 4
