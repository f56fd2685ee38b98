"""What forks cost. What they mean: `antiphon_store.testing.lineage_forks`."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import Record
from antiphon_store.backends.leases import SessionState
from antiphon_store.backends.places import place_of
from antiphon_store.backends.sqlite import lineage_writes, nodes, sessions
from antiphon_store.testing.subject import draft

NOW_MS = 1000


def put_line(connection: sqlite3.Connection, branch: int, length: int) -> Record:
    """A chain in session `s` + branch; its last response."""
    connection.execute("INSERT INTO branch (id) VALUES (?)", (branch,))
    parent: Record | None = None
    for depth in range(length):
        parent = replace(draft(parent, session_id=f"s{branch}"), version=1, depth=depth)
        nodes.insert(connection, "t", place_of(branch, depth), parent)
    assert parent is not None
    sessions.write(connection, "t", f"s{branch}", SessionState(head_id=parent.id))
    return parent


def steps(connection: sqlite3.Connection, source: ForkSource, target: str) -> int:
    """How many steps of SQLite's machine a fork takes."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(step, 1)
    lineage_writes.fork(connection, "t", source, target, NOW_MS)
    connection.set_progress_handler(None, 0)
    return count


def test_a_fork_costs_the_same_whatever_the_length(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    short, long_ = put_line(connection, 1, 10), put_line(connection, 2, 10_000)
    by_response = [
        steps(connection, ForkSource(None, head.id), f"r{number}") for number, head in enumerate((short, long_))
    ]
    by_session = [steps(connection, ForkSource(f"s{branch}"), f"t{branch}") for branch in (1, 2)]
    assert abs(by_response[1] - by_response[0]) < 10
    assert abs(by_session[1] - by_session[0]) < 10


def test_a_fork_copies_nothing(connection: sqlite3.Connection) -> None:
    head = put_line(connection, 1, 20)
    before = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("node", "branch")]
    lineage_writes.fork(connection, "t", ForkSource(None, head.id), "new", NOW_MS)
    assert [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("node", "branch")] == before
