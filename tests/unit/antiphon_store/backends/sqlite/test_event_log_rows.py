from __future__ import annotations

import re
import sqlite3

import pytest

from antiphon_core.errors import InternalError
from antiphon_core.ports.event_logs import Checkpoint, EventBatch
from antiphon_store.backends.log_states import LogState
from antiphon_store.backends.sqlite import event_log_rows as rows

END = LogState(2, closed=False, expires_at_ms=100)
BATCH = EventBatch(0, 2, b"a\n\nb\n\n", False, (Checkpoint(5, (1, 2**32 - 1)),))


@pytest.mark.parametrize("name", rows.QUERIES)
def test_every_statement_fits_the_schema_and_scans_nothing(connection: sqlite3.Connection, name: str) -> None:
    parameters = dict.fromkeys(re.findall(r":(\w+)", rows.QUERIES[name]), 1)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {rows.QUERIES[name]}", parameters)]
    assert not [step for step in plan if step.startswith(("SCAN", "USE TEMP B-TREE"))], plan


def test_batches_come_back(connection: sqlite3.Connection) -> None:
    log = rows.begin(connection, "t", "resp_1", END)
    rows.insert_batch(connection, log, "resp_1", BATCH)
    assert rows.find(connection, "t", "resp_1") == (log, END)
    assert rows.read_batch(connection, log, "resp_1", 0) == BATCH
    assert rows.read_batch(connection, log, "resp_1", 1) is None
    for position, found in ((0, BATCH), (1, BATCH), (2, None)):
        read = list(rows.read(connection, "t", "resp_1", position=position, now_ms=99))
        assert read == [(LogState(2, closed=False), found)]
    assert list(rows.read(connection, "t", "resp_1", position=0, now_ms=100)) == []


def test_a_dropped_log_leaves_no_row(connection: sqlite3.Connection) -> None:
    before = list(connection.iterdump())
    log = rows.begin(connection, "t", "resp_1", END)
    rows.insert_batch(connection, log, "resp_1", BATCH)
    rows.drop(connection, log)
    assert list(connection.iterdump()) == before


@pytest.mark.parametrize(
    "damage", ["frames = x'00'", "token_ids = x''", "count = 1", "terminal = 1", "checkpoint_offset = 4"]
)
def test_damaged_bytes_are_noticed(connection: sqlite3.Connection, damage: str) -> None:
    log = rows.begin(connection, "t", "resp_1", END)
    rows.insert_batch(connection, log, "resp_1", BATCH)
    connection.execute(f"UPDATE event_batch SET {damage}")
    with pytest.raises(InternalError):
        rows.read_batch(connection, log, "resp_1", 0)
