"""Writes while a process is killed, and checks afterwards that every acknowledged record is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from antiphon_core.errors import Timeout, Unavailable
from antiphon_core.limits import LOOKUP_ITEMS_MAX
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.store import Record, ResponseStore, TurnCommit
from antiphon_store.testing.subject import content, draft
from tests.support.volume import volume
from tests.support.waiting import with_retries

TENANT = "t"
WRITERS = 64  # concurrent, so that writes that wait for the disk share a flush
ACKNOWLEDGED = volume(1_000, 10_000)  # in all
WRITING_S_MAX = 150.0


class Lost(Exception):
    """An acknowledged record is missing."""


async def write_lines(store: ResponseStore, acknowledged: list[Record], killed: asyncio.Event) -> None:
    """Commits turns, each behind the one before, until the store is killed. Retries a commit that fails before the
    kill, as on a connection to a process that was killed earlier."""
    parent = None
    while True:
        record = draft(parent)
        while not await commit(store, record):
            if killed.is_set():
                return
            await asyncio.sleep(0.05)
        acknowledged.append(record)
        parent = record


async def commit(store: ResponseStore, record: Record) -> bool:
    try:
        return (await store.commit_turn(TENANT, TurnCommit(record))).version == 1
    except (Unavailable, Timeout):
        return False


async def write_until_killed(store: ResponseStore, kill: Callable[[], object], count: int) -> list[Record]:
    """Writes until at least `count` records are acknowledged, then kills the store. Returns all acknowledged
    records."""
    acknowledged: list[Record] = []
    killed = asyncio.Event()
    async with asyncio.timeout(WRITING_S_MAX), asyncio.TaskGroup() as writers:
        for _ in range(WRITERS):
            writers.create_task(write_lines(store, acknowledged, killed))
        while len(acknowledged) < count:
            await asyncio.sleep(0.002)
        killed.set()
        await asyncio.to_thread(kill)
    return acknowledged


async def require_all(store: FullStore, acknowledged: Sequence[Record]) -> None:
    """Requires that every record is stored unchanged, and that the chains of the last records are whole.

    Retries calls, because each connection to a killed process fails once. Raises `Lost` if a record is missing.
    """
    for start in range(0, len(acknowledged), LOOKUP_ITEMS_MAX):
        asked = acknowledged[start : start + LOOKUP_ITEMS_MAX]
        found = await with_retries(partial(store.batch_get, TENANT, [record.id for record in asked]))
        if lost := {record.id for record in asked} - {record.id for record in found}:
            raise Lost(f"{len(lost)} of {len(asked)}, such as {min(lost)}")
        assert [(each.version, *content(each)) for each in found] == [(1, *content(each)) for each in asked]
    for record in acknowledged[-WRITERS:]:
        chain = await with_retries(partial(store.chain, TENANT, record.id))
        assert [each.depth for each in chain] == list(range(len(chain)))
        assert chain[-1].id == record.id
