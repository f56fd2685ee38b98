"""How lists and trees are read. What they show: `antiphon_store.testing.lineage_trees`."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from antiphon_core.errors import LimitExceeded, ResponseNotFound
from antiphon_core.ports.store import Record
from antiphon_store.backends.base import Durability
from antiphon_store.backends.places import depth_of
from antiphon_store.backends.sqlite import lineage, lineage_reads, nodes
from antiphon_store.backends.sqlite.connection import connect
from antiphon_store.testing.subject import draft

NOW_MS = 1000


def put(connection: sqlite3.Connection, parent: Record | None = None) -> Record:
    above = nodes.find(connection, "t", parent.id) if parent else None
    place = lineage.new_place(connection, above.place if above else None)
    record = replace(draft(parent), version=1, depth=depth_of(place))
    nodes.insert(connection, "t", place, record)
    return record


def test_a_subtree_has_every_branch_once(connection: sqlite3.Connection) -> None:
    root = put(connection)
    children = [put(connection, root) for _ in range(3)]
    grandchildren = [put(connection, child) for child in children for _ in range(2)]
    put(connection)  # another tree
    stored = {record.id for record in (root, *children, *grandchildren)}
    for response_id in stored:
        twigs = lineage_reads.subtree(connection, "t", response_id, NOW_MS, from_root=True, max_nodes=10)
        assert len(twigs) == 10
        assert {twig.id for twig in twigs} == stored
    with pytest.raises(LimitExceeded):
        lineage_reads.subtree(connection, "t", root.id, NOW_MS, from_root=False, max_nodes=9)


def test_a_neighbouring_branch_is_no_child(connection: sqlite3.Connection) -> None:
    root = put(connection)
    other = put(connection)
    child = put(connection, other)
    found = lineage_reads.children(connection, "t", root.id, NOW_MS, after=None, limit=5)
    assert found.values == []
    found = lineage_reads.children(connection, "t", other.id, NOW_MS, after=None, limit=5)
    assert [node.id for node in found.values] == [child.id]


def test_a_read_of_several_statements_sees_one_moment(connection: sqlite3.Connection, path: Path) -> None:
    records = [put(connection) for _ in range(2)]
    reader = connect(path, Durability.PROCESS)
    with lineage_reads._one_moment(reader):
        assert nodes.read(reader, "t", records[0].id, NOW_MS)
        connection.execute("DELETE FROM node")
        assert nodes.read(reader, "t", records[1].id, NOW_MS)
    assert nodes.read(reader, "t", records[1].id, NOW_MS) is None
    reader.close()


def test_a_refused_read_leaves_no_transaction(connection: sqlite3.Connection) -> None:
    with pytest.raises(ResponseNotFound):
        lineage_reads.children(connection, "t", draft().id, NOW_MS, after=None, limit=5)
    assert not connection.in_transaction
