"""SQLite and PostgreSQL against memory, lineage included: the same answers and errors to any sequence of operations."""

from __future__ import annotations

from antiphon_store.testing.lineage_model import machine
from tests.contract.store.test_model import open_postgres, open_sqlite

TestSqliteAgainstMemory = machine(open_sqlite).TestCase
TestPostgresAgainstMemory = machine(open_postgres).TestCase
