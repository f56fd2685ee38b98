"""A writer of an encrypted database exchanges, truncates and restores sealed columns of real databases.

Content of another row, tenant or column, and shortened content, is never returned. Older content of the same column is:
sealing does not detect it (docs/explain/security.md), but a checksum binds body and items of one write together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from antiphon_core.errors import AntiphonError, DataDamaged
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import JobDraft
from antiphon_core.ports.store import Precondition, Record
from antiphon_core.sealing_keys import SealingKeys
from antiphon_store.encryption.configured_rows import seal_rows
from antiphon_store.rows.model import Kind
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft
from tests.support.damaged_databases import DATABASES, Database, StoredRow

CANARY = b"the secret of the other"


class Written:
    """One tenant with a response, an event log and a job."""

    def __init__(self, store: StoreService, text: bytes) -> None:
        self.tenant = f"tenant-{uuid4().hex[:8]}"
        self.record = draft(body=b'{"text":"%b"}' % text)
        self._store = store
        self._frames = b"data: %b\n\n" % text

    async def fill(self) -> None:
        await self._store.put(self.tenant, self.record)
        await self._store.append_events(self.tenant, EventAppend(self.record.id, 0, 1, self._frames))
        await self._store.enqueue_job(self.tenant, JobDraft(self.record.id, "q", self._frames))

    async def read(self, kind: Kind) -> Any:
        """The content of the row of a kind."""
        if kind is Kind.NODE:
            return (await self._store.get(self.tenant, self.record.id)).body
        if kind is Kind.BATCH:
            return [each.frames async for each in self._store.read_events(self.tenant, self.record.id)]
        job = await self._store.claim_job(self.tenant, ["q"], holder="h", lease_ttl_ms=60_000)
        return job and job.payload


@pytest.fixture(params=list(DATABASES))
def database(request: pytest.FixtureRequest) -> Any:
    return DATABASES[request.param]


@pytest.fixture
async def store(database: Any, tmp_path: Path) -> AsyncIterator[StoreService]:
    store = StoreService(seal_rows(database.backend(tmp_path), SealingKeys.ephemeral()))
    await store.open()
    yield store
    await store.close()


CONTENT = {Kind.NODE: "body", Kind.BATCH: "items", Kind.JOB: "body"}


@pytest.mark.parametrize("kind", CONTENT)
@pytest.mark.parametrize("change", ["of the other tenant", "of another column", "cut off", "plain"])
async def test_sealed_content_that_was_exchanged_or_cut_off_is_never_returned(
    database: Any, store: StoreService, tmp_path: Path, kind: Kind, change: str
) -> None:
    mine, other = Written(store, b"mine"), Written(store, CANARY)
    for each in (mine, other):
        await each.fill()
    with database.database(tmp_path, mine.tenant) as own, database.database(tmp_path, other.tenant) as foreign:
        row, column = own_row(own, mine, kind), CONTENT[kind]
        theirs = own_row(foreign, other, kind)
        values = {
            "of the other tenant": getattr(theirs, column),
            "of another column": own_row(own, mine, Kind.NODE).items,
            "cut off": getattr(row, column)[:-1],
            "plain": b'{"text":"forged"}',
        }
        assert own.write(row, column, values[change])
    try:
        found = await mine.read(kind)
    except DataDamaged:
        found = None
    assert CANARY not in repr(found).encode()
    if change != "plain" or kind is not Kind.JOB:  # unsealed payloads are read: encryption can be turned on later
        assert found is None
    assert CANARY in repr(await other.read(kind)).encode()


def own_row(tampered: Database, written: Written, kind: Kind) -> StoredRow:
    """The row of a kind of this tenant; SQLite shows the rows of all."""
    (found,) = [each for each in tampered.rows() if each.kind is kind and each.id.startswith(written.record.id)]
    return found


async def test_a_body_of_an_earlier_version_is_damage_and_not_mixed_with_newer_items(
    database: Any, store: StoreService, tmp_path: Path
) -> None:
    mine = Written(store, b"old")
    await mine.fill()
    with database.database(tmp_path, mine.tenant) as own:
        before = own_row(own, mine, Kind.NODE)
        newer = Record(
            mine.record.id,
            mine.record.status,
            b'{"text":"new"}',
            mine.record.input_items,
            mine.record.output_items,
        )
        await store.put(mine.tenant, newer, precondition=Precondition(version=1))
        assert own.write(before, "body", before.body)
        with pytest.raises(AntiphonError) as caught:
            await mine.read(Kind.NODE)
        assert isinstance(caught.value, DataDamaged)
