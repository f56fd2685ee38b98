from __future__ import annotations

import re
import sqlite3

import pytest

from antiphon_store.backends.places import DEPTH_BITS, DEPTH_MAX
from antiphon_store.backends.sqlite.lineage_queries import QUERIES

READS = [name for name in QUERIES if QUERIES[name].startswith(("SELECT", "WITH"))]


def parameters(name: str) -> dict[str, int]:
    return dict.fromkeys(re.findall(r":(\w+)", QUERIES[name]), 1)


@pytest.mark.parametrize("name", QUERIES)
def test_every_statement_fits_the_schema(connection: sqlite3.Connection, name: str) -> None:
    connection.execute(f"EXPLAIN {QUERIES[name]}", parameters(name))


@pytest.mark.parametrize("name", READS)
def test_no_read_scans_a_table(connection: sqlite3.Connection, name: str) -> None:
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", parameters(name))]
    scans = {step for step in plan if step.startswith("SCAN")}
    assert scans <= {"SCAN span", "SCAN up", "SCAN child", "SCAN page", "SCAN segment", "SCAN CONSTANT ROW"}, plan


@pytest.mark.parametrize("name", ["list_ascending", "list_descending"])
def test_a_list_is_read_in_the_order_of_its_index(connection: sqlite3.Connection, name: str) -> None:
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", parameters(name))]
    assert len(plan) == 1
    assert "node_by_session" in plan[0]


def test_statements_agree_with_the_layout_of_places() -> None:
    numbers = {int(number) for name in QUERIES for number in re.findall(r"[&|~<>] ?~?(\d{2,})", QUERIES[name])}
    assert numbers == {DEPTH_MAX, DEPTH_BITS}
