"""A backup while writers continue: it has every record acknowledged before it began, and every chain is whole."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from antiphon.operations import postgres_backup, sqlite_backup
from antiphon.operations.verifying import verify
from antiphon_core.ports.store import Record, TurnCommit
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.maintenance import Progress
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import content, draft, new_session_id, turn_in
from tests.support.postgres_server import new_database

TENANT = "acme"
SESSIONS = 8
TURNS_BEFORE = 40
STEPS_WITH_WRITES = 12  # of the backup; each waits until more turns are acknowledged
TURNS_IN_A_STEP = 5
BODY = b'{"text":"%s"}' % (b"x" * 3000)


@dataclass
class Writers:
    """Turns in several sessions, in their own thread, until they are stopped. Each turn also writes a side branch."""

    store: StoreService
    acknowledged: list[tuple[str, Record]] = field(default_factory=list)
    grown: threading.Condition = field(default_factory=threading.Condition)
    is_over: bool = False

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        await self.store.open()
        try:
            await asyncio.gather(*[self._write() for _ in range(SESSIONS)])
        finally:
            self.is_over = True
            await self.store.close()

    async def _write(self) -> None:
        session, parent = new_session_id(), None
        while not self.is_over:
            start = await self.store.begin_turn(TENANT, turn_in(session))
            assert start.lease is not None
            record = draft(parent, tag=session, session_id=session, body=BODY)
            await self.store.commit_turn(TENANT, TurnCommit(record, start.lease.fence, ttl_ms=10**9))
            side = draft(parent, tag=session, body=BODY)  # a side branch
            await self.store.put(TENANT, side)
            with self.grown:
                self.acknowledged += [(session, record), (session, side)]
                self.grown.notify_all()
            parent = record

    def wait_for(self, count: int) -> None:
        """Blocks until `count` records are acknowledged."""
        with self.grown:
            self.grown.wait_for(lambda: self.is_over or len(self.acknowledged) >= count)
            assert len(self.acknowledged) >= count

    def while_writing(self) -> Progress:
        """Returns a callback that waits for more writes between the steps of a backup."""
        steps = iter(range(STEPS_WITH_WRITES))

        def wait(_count: int) -> None:
            if next(steps, None) is not None:
                self.wait_for(len(self.acknowledged) + TURNS_IN_A_STEP)

        return wait


@contextmanager
def writing(store: StoreService) -> Iterator[Writers]:
    writers = Writers(store)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(writers.run)
        try:
            writers.wait_for(TURNS_BEFORE)
            yield writers
        finally:
            writers.is_over = True
            running.result()


@dataclass(frozen=True)
class Database:
    """A store that is written, and a second one for the restored backup. `backup` may be slower than in production."""

    source: Any
    target: Any
    backup: Callable[[Path, Progress], Any]
    restore: Callable[[Path, Progress], Any]


def sqlite(folder: Path) -> Database:
    paths = folder / "store.db", folder / "restored.db"
    source, target = (SqliteRows(each, durability=Durability.PROCESS) for each in paths)
    backup = partial(sqlite_backup.backup, paths[0], pages_at_once=1)
    return Database(source, target, backup, partial(sqlite_backup.restore, paths[1]))


def postgres(_folder: Path) -> Database:
    urls = new_database(), new_database()
    source, target = (PostgresRows(each, durability=Durability.PROCESS) for each in urls)
    backup = partial(postgres_backup.backup, urls[0], piece_bytes=2048)
    return Database(source, target, backup, partial(postgres_backup.restore, urls[1]))


@pytest.fixture(params=[sqlite, postgres])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    found: Database = request.param(tmp_path)
    return found


async def test_a_backup_under_load_has_all_that_was_acknowledged_before(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    with writing(StoreService(database.source)) as writers:
        before = list(writers.acknowledged)
        await database.backup(file, writers.while_writing())
        written = dict.fromkeys(session for session, _ in before)
    attempted = {record.id: record for _, record in writers.acknowledged}
    assert len(attempted) >= len(before) + STEPS_WITH_WRITES * TURNS_IN_A_STEP, "nobody wrote during the backup"

    await database.restore(file, lambda _count: None)
    restored = StoreService(database.target)
    await restored.open()
    try:
        for _, record in before:
            assert content(await restored.get(TENANT, record.id)) == content(record)
        for session in written:
            head = (await restored.describe_session(TENANT, session)).head_id
            assert head is not None
            chain = await restored.chain(TENANT, head)
            assert [each.depth for each in chain] == list(range(len(chain)))
            assert [each.parent_id for each in chain[1:]] == [each.id for each in chain[:-1]]
            assert all(each.session_id == session for each in chain)
        found = [each async for each in verify(database.target, database.target.maintenance, None, lambda _count: None)]
        assert found == []
    finally:
        await restored.close()
