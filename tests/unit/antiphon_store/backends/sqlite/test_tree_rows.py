"""Numbers of trees in SQLite. tests/contract/store/test_rows.py tests programs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from antiphon_core.errors import InternalError
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.backends.sqlite.connection import connect
from antiphon_store.backends.sqlite.schema import prepare
from antiphon_store.backends.sqlite.tree_rows import TreeRows
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.model import (
    Applied,
    Change,
    Delete,
    File,
    Get,
    Grow,
    Index,
    Kind,
    Partition,
    Program,
    Ref,
    Set,
    Unfile,
)
from antiphon_store.rows.view import Finish, View
from antiphon_store.testing.subject import draft
from tests.support.rows import node

NODE = node(draft()).fields
ENDS = (Index.ENDS, "", "node/n")


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(tmp_path / "rows.db", Durability.PROCESS)) as connection:
        prepare(connection)
        yield connection


def change(rows: sqlite3.Connection, tree: str, *changes: Change) -> None:
    TreeRows(rows, Partition("t", tree), 1).run(Program(changes=changes))


def trees(rows: sqlite3.Connection) -> list[tuple[int, str]]:
    return rows.execute("SELECT number, tag FROM tree ORDER BY number").fetchall()


def test_trees_are_numbered_in_the_order_of_their_first_write(rows: sqlite3.Connection) -> None:
    for tree in ("z", "a", "z"):
        change(rows, tree, Set(Ref(Kind.SESSION, "s"), {"head": tree}))
    TreeRows(rows, Partition("t", "unseen"), 1).run(Program(reads=[Get(Ref(Kind.SESSION, "s"))]))
    assert trees(rows) == [(1, "z"), (2, "a")]


@pytest.mark.parametrize(
    ("made", "taken"),
    [
        (Grow("n", None, NODE), Delete(Ref(Kind.NODE, "n"))),
        (Set(Ref(Kind.SESSION, "s"), {}), Delete(Ref(Kind.SESSION, "s"))),
        (File(*ENDS), Unfile(*ENDS)),
        (File(Index.CHILDREN, "a", "b"), Unfile(Index.CHILDREN, "a", "b")),
    ],
)
def test_a_tree_without_rows_and_entries_is_removed(rows: sqlite3.Connection, made: Change, taken: Change) -> None:
    change(rows, "a", made, Set(Ref(Kind.PROMPT, "j"), {}))
    change(rows, "a", Delete(Ref(Kind.PROMPT, "j")))
    assert trees(rows) == [(1, "a")]
    change(rows, "a", taken)
    assert trees(rows) == []


async def test_a_decision_whose_finish_raises_changes_nothing(tmp_path: Path) -> None:
    """Example: the bytes of a history are damaged, and the lease was taken before."""
    rows = SqliteRows(tmp_path / "rows.db", durability=Durability.PROCESS)
    await rows.open()
    here, session = Partition("t", "tree"), Ref(Kind.SESSION, "s")

    def decision(view: View) -> Finish[None]:
        view.set(*session, holder="me")
        return fail

    def fail(_answers: object) -> None:
        raise InternalError("damaged")

    with pytest.raises(InternalError):
        await rows.decide(here, decision, only_reads=False)
    outcome = await rows.transact(here, Program(reads=[Get(session)]))
    assert isinstance(outcome, Applied)
    assert list(outcome.answers) == [None]
    await rows.close()
