"""The views for operators, on each SQL database with rows of every kind."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from antiphon_core.clock import SystemClock
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.sql_views import VIEWS, document
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.model import Kind
from antiphon_store.service import StoreService
from tests.support.postgres_server import new_schema, shared_postgres
from tests.support.stored_tenant import PROMPT, StoredTenant

NOT_SHOWN = {Kind.QUOTA, Kind.LINEAGE}
TENANT = "acme"
Ask = Callable[[str], list[dict[str, Any]]]


def in_sqlite(folder: Path) -> tuple[Any, Ask]:
    path = folder / "store.db"

    def ask(query: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(each) for each in connection.execute(query)]

    return SqliteRows(path, durability=Durability.PROCESS), ask


def in_postgresql(_folder: Path) -> tuple[Any, Ask]:
    url, schema = shared_postgres().url, new_schema()

    def ask(query: str) -> list[dict[str, Any]]:
        with psycopg.connect(url, options=f"-c search_path={schema}", row_factory=psycopg.rows.dict_row) as connection:
            return connection.execute(query.encode()).fetchall()

    return PostgresRows(url, database_schema=schema, durability=Durability.PROCESS), ask


@pytest.fixture(params=[in_sqlite, in_postgresql])
async def ask(request: pytest.FixtureRequest, tmp_path: Path) -> Ask:
    rows, ask = request.param(tmp_path)
    await rows.open()
    await StoredTenant(TENANT).fill(StoreService(rows))
    await rows.close()
    found: Ask = ask
    return found


def is_recent(when: Any) -> bool:
    at = when if isinstance(when, datetime) else datetime.fromisoformat(f"{when}+00:00")
    return abs(at.timestamp() - SystemClock().now_ms() / 1000) < 600


async def test_each_kind_of_rows_has_a_view_with_its_rows(ask: Ask) -> None:
    assert {view.kind for view in VIEWS.values()} == set(Kind) - NOT_SHOWN
    for name, view in VIEWS.items():
        found = ask(f"SELECT * FROM {name}")
        if view.kind not in (Kind.LINE, Kind.POINTER):  # which few tenants have
            assert found, name
        for each in found:
            assert list(each) == ["tenant", "tree", "id", *view.columns]
            assert each["tenant"] == TENANT


async def test_views_show_fields_as_values_of_their_types(ask: Ask) -> None:
    jobs = {each["state"]: each for each in ask("SELECT * FROM antiphon_jobs")}
    assert set(jobs) == {"queued", "running"}
    assert (jobs["running"]["holder"], jobs["running"]["attempts"], jobs["queued"]["holder"]) == ("worker", 1, None)
    assert (jobs["queued"]["lease_until"], jobs["queued"]["ended_at"]) == (None, None)
    assert is_recent(jobs["queued"]["available_at"])
    counts = "SELECT status, count(*) AS n FROM antiphon_responses WHERE NOT is_deleted GROUP BY status"
    assert {each["status"]: each["n"] for each in ask(counts)} == {"completed": 5, "in_progress": 1}
    assert [each["is_added"] for each in ask("SELECT is_added FROM antiphon_responses WHERE is_added")] == [True]
    (log,) = ask("SELECT next_event, is_closed FROM antiphon_event_logs")
    assert (log["next_event"], bool(log["is_closed"])) == (2, False)
    (prompt,) = ask(f"SELECT latest_version FROM antiphon_prompts WHERE id = 'all/{PROMPT}'")
    assert prompt["latest_version"] == 2
    (talk,) = ask("SELECT metadata, version, created_at FROM antiphon_conversations")
    assert (talk["metadata"], talk["version"], is_recent(talk["created_at"])) == ('{"a":"b"}', 1, True)


def test_the_page_of_the_views_is_up_to_date() -> None:
    page = Path(__file__).parents[3] / "docs/reference/store-views.md"
    assert page.read_text(encoding="utf-8") == document(), "run `make docs`"
