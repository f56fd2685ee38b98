"""The layout of trees in rows. What chains and deletion mean: `antiphon_store.testing`."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from antiphon_core.errors import InternalError, LimitExceeded
from antiphon_core.ports.store import Record
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.places import DEPTH_MAX, branch_of, depth_of, place_of
from antiphon_store.backends.sqlite import lineage, nodes
from antiphon_store.testing.lineage import joined
from antiphon_store.testing.subject import draft

NOW_MS = 1000


class Grove:
    """Puts bare nodes, and looks at the rows that they make."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def put(self, parent: Record | None = None) -> Record:
        place = lineage.new_place(self.connection, self.place(parent) if parent else None)
        record = replace(draft(parent), version=1, depth=depth_of(place))
        nodes.insert(self.connection, "t", place, record)
        return record

    def line(self, length: int, parent: Record | None = None) -> list[Record]:
        line: list[Record] = []
        for _ in range(length):
            parent = self.put(parent)
            line.append(parent)
        return line

    def place(self, record: Record) -> int:
        node = nodes.find(self.connection, "t", record.id)
        assert node is not None
        return node.place

    def delete(self, record: Record) -> None:
        place = self.place(record)
        nodes.mark_deleted(self.connection, place)
        lineage.reclaim(self.connection, place, NOW_MS)

    def count(self, table: str) -> int:
        (count,) = self.connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)

    def history(self, record: Record) -> bytes:
        history = lineage.read_history(self.connection, "t", ChainBounds(record.id, 1000, 10**6), NOW_MS)
        assert history is not None
        return history.items


@pytest.fixture
def grove(connection: sqlite3.Connection) -> Grove:
    return Grove(connection)


def test_a_line_is_one_branch(grove: Grove) -> None:
    line = grove.line(4)
    places = [grove.place(record) for record in line]
    assert [place - places[0] for place in places] == [0, 1, 2, 3]
    assert grove.count("branch") == 1


def test_a_second_child_begins_a_branch(grove: Grove) -> None:
    line = grove.line(3)
    fork = grove.line(2, parent=line[0])
    assert branch_of(grove.place(fork[0])) != branch_of(grove.place(line[0]))
    assert [depth_of(grove.place(record)) for record in fork] == [1, 2]
    assert branch_of(grove.place(fork[1])) == branch_of(grove.place(fork[0]))
    assert grove.count("branch") == 2


def test_a_fork_copies_nothing(grove: Grove) -> None:
    line = grove.line(10)
    before = grove.count("node")
    grove.put(line[5])
    assert grove.count("node") == before + 1


def test_history_over_many_forks_is_in_order(grove: Grove) -> None:
    line = grove.line(2)
    for _ in range(6):
        grove.put(line[-1])
        line.append(grove.put(line[-1]))
    assert grove.history(line[-1]) == joined(line)


def test_deleting_leaves_no_rows(grove: Grove) -> None:
    line = grove.line(4)
    fork = grove.line(2, parent=line[1])
    twig = grove.line(2, parent=fork[0])
    for record in (*line, *fork):
        grove.delete(record)
    assert grove.count("node") == 5  # the twig and what it continues
    assert grove.history(twig[-1]) == joined([*line[:2], fork[0], *twig])
    for record in reversed(twig):
        grove.delete(record)
    assert (grove.count("node"), grove.count("branch")) == (0, 0)


def test_an_expired_tree_goes_as_a_whole(grove: Grove) -> None:
    line = grove.line(3)
    for _ in range(2):
        grove.line(2, parent=grove.put(line[0]))
    grove.connection.execute("UPDATE node SET expires_at_ms = ?", (NOW_MS,))
    other = grove.put()
    lineage.reclaim(grove.connection, grove.place(line[0]), NOW_MS - 1)
    assert (grove.count("node"), grove.count("branch")) == (10, 4)
    lineage.reclaim(grove.connection, grove.place(line[0]), NOW_MS)
    assert (grove.count("node"), grove.count("branch")) == (1, 1)
    assert grove.history(other)


def test_a_reclaimed_place_can_be_used_again(grove: Grove) -> None:
    line = grove.line(2)
    place = grove.place(line[1])
    grove.delete(line[1])
    child = grove.put(line[0])
    assert grove.place(child) == place
    assert grove.history(child) == joined([line[0], child])


def test_neighbours_of_a_dead_branch_stay(grove: Grove) -> None:
    line = grove.line(3)
    forks = [grove.line(2, parent=line[0]) for _ in range(3)]
    for record in forks[1]:
        grove.delete(record)
    for tip in (line[-1], forks[0][-1], forks[2][-1]):
        assert grove.history(tip)
    assert (grove.count("node"), grove.count("branch")) == (7, 3)


def test_the_deepest_place_has_no_child(connection: sqlite3.Connection) -> None:
    with pytest.raises(LimitExceeded):
        lineage.new_place(connection, place_of(1, DEPTH_MAX))


def test_damage_anywhere_in_a_history_is_noticed(grove: Grove) -> None:
    line = grove.line(3)
    grove.connection.execute("UPDATE node SET items = x'00' WHERE id = ?", (line[1].id,))
    with pytest.raises(InternalError) as caught:
        grove.history(line[2])
    assert caught.value.facts["id"] == line[1].id
    assert grove.history(line[0]) == joined(line[:1])
