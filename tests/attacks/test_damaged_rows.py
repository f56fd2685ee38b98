"""A disk, or a writer of the database, changes stored rows: every read tells it as damage, and none as a bug."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import orjson
import pytest

from antiphon_core.errors import AntiphonError, DataDamaged, InternalError, StoreUnavailable
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.jobs import PAYLOAD_DAMAGED, JobDraft, JobState
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.model import Kind
from antiphon_store.service import StoreService
from tests.support.damaged_databases import DATABASES, Database, StoredRow
from tests.support.stored_tenant import StoredTenant
from tests.support.volume import volume

DAMAGED = "damaged"
NOT_HERE = frozenset({Kind.LINE, Kind.QUOTA})
"""Kinds of a tenant of Antiphon's own, and of rows that SQLite keeps in memory."""
MEMBERS: tuple[Any, ...] = (None, "x", -1, 1.5, 2**63, [], [None], {}, "sealed-1:x")
TEXTS = (b"", b"{", b"[]", b"null", b"5", b'"x"', b"\xff\x00", b'{"v":1}')
PAYLOADS: tuple[Any, ...] = (b"", b"\xff", b"{", 5, "text")


class Change(NamedTuple):
    column: str
    value: Any
    what: str


def changes_of(row: StoredRow) -> Iterator[Change]:
    members = orjson.loads(row.fields)
    for name in members:
        rest = {each: value for each, value in members.items() if each != name}
        yield Change("fields", orjson.dumps(rest), f"without {name}")
        for value in MEMBERS:
            as_number = b"9" * 30 if value == 2**63 else orjson.dumps(value)
            yield Change("fields", orjson.dumps({**members, name: "@"}).replace(b'"@"', as_number), f"{name}={value!r}")
    for text in TEXTS:
        yield Change("fields", text, f"fields={text!r}")
    for column in ("items", "body"):
        for payload in PAYLOADS:
            yield Change(column, payload, f"{column}={payload!r}")


@pytest.fixture(params=list(DATABASES))
def database(request: pytest.FixtureRequest) -> Any:
    return DATABASES[request.param]


@pytest.fixture
async def rows(database: Any, tmp_path: Path) -> AsyncIterator[RowBackend]:
    opened = database.backend(tmp_path)
    await opened.open()
    yield opened
    await opened.close()


async def test_changed_columns_of_every_kind_are_told_as_damage_by_every_query(
    database: Any, rows: RowBackend, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, stored = StoreService(rows), StoredTenant(f"tenant-{uuid4().hex[:8]}")
    await stored.fill(store)
    with database.database(tmp_path, stored.tenant) as tampered:
        whole = {row.id + row.kind: row for row in tampered.rows()}
        assert {row.kind for row in whole.values()} | NOT_HERE == set(Kind)
        cases = [(row, change) for row in whole.values() for change in changes_of(row)]
        told = [
            told
            for row, change in random.Random(1).sample(cases, min(len(cases), volume(75, 10_000)))
            for told in [each async for each in answers(store, stored, tampered, row, change, caplog)]
        ]
        assert not [each for each in told if each != DAMAGED]
        assert len(told) > 20
        await stored.answers(store)  # each change was undone, so nothing is damaged now


async def answers(
    store: StoreService,
    stored: StoredTenant,
    tampered: Database,
    row: StoredRow,
    change: Change,
    caplog: pytest.LogCaptureFixture,
) -> AsyncIterator[str]:
    """Makes every query on a changed row. Yields DAMAGED for each that says so, and what went wrong in others."""
    if not tampered.write(row, change.column, change.value):
        return
    for name, query in stored.queries(store).items():
        caplog.clear()
        wrong = f"{name} of {row.kind} {row.id} with {change.what}"
        try:
            await query()
        except DataDamaged:
            yield DAMAGED
        except (InternalError, StoreUnavailable) as error:
            yield f"{wrong}: {error!r}"
        except AntiphonError:
            pass  # the row looks like another one, such as one of an expired response
        except Exception as error:  # noqa: BLE001 - what the test is about
            yield f"{wrong}: {error!r}"
        lines = [each for each in caplog.records if each.levelno >= logging.ERROR]
        if any(each.exc_info for each in lines):
            yield f"{wrong}: {lines}"
    assert tampered.write(row, change.column, getattr(row, change.column))


@pytest.mark.parametrize("fields", [b"{", b"{}"])
async def test_a_job_with_a_damaged_row_fails_once_and_others_are_claimed(
    database: Any, rows: RowBackend, tmp_path: Path, fields: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store, tenant = StoreService(rows), f"tenant-{uuid4().hex[:8]}"
    jobs = [new_response_id(RandomIds()) for _ in range(3)]
    for job_id in jobs:
        await store.enqueue_job(tenant, JobDraft(job_id, "q", b"payload"))
    with database.database(tmp_path, tenant) as tampered:
        (damaged,) = [each for each in tampered.rows() if each.id == jobs[0]]
        assert tampered.write(damaged, "fields", fields)
    claimed = [await store.claim_job(tenant, ["q"], holder=f"h{number}", lease_ttl_ms=60_000) for number in range(4)]
    assert sorted(each.id for each in claimed if each) == sorted(jobs[1:])
    described = await store.describe_job(tenant, jobs[0])
    assert (described.state, described.reason) == (JobState.FAILED, PAYLOAD_DAMAGED)
    assert not [each for each in caplog.records if each.exc_info]
