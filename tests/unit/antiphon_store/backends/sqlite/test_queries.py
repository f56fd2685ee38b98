from __future__ import annotations

import re
import sqlite3

import pytest

from antiphon_store.backends.places import DEPTH_BITS, DEPTH_MAX
from antiphon_store.backends.sqlite.queries import QUERIES


@pytest.mark.parametrize("name", QUERIES)
def test_every_statement_fits_the_schema(connection: sqlite3.Connection, name: str) -> None:
    parameters = dict.fromkeys(re.findall(r":(\w+)", QUERIES[name]), 1)
    connection.execute(f"EXPLAIN {QUERIES[name]}", parameters)


@pytest.mark.parametrize("name", ["chain", "history", "is_anything_kept", "drop_nodes", "drop_branches"])
def test_no_walk_scans_a_table(connection: sqlite3.Connection, name: str) -> None:
    parameters = dict.fromkeys(re.findall(r":(\w+)", QUERIES[name]), 1)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", parameters)]
    scans = {step for step in plan if step.startswith("SCAN")}
    assert scans <= {"SCAN segment", "SCAN span", "SCAN CONSTANT ROW"}, plan


def test_statements_agree_with_the_layout_of_places() -> None:
    numbers = {int(number) for name in QUERIES for number in re.findall(r"[&|~<>] ?~?(\d{2,})", QUERIES[name])}
    assert numbers == {DEPTH_MAX, DEPTH_BITS}
