"""Reads of rows by name, in batches of limited size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from antiphon_core.errors import InternalError
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.maintenance import Name
from antiphon_store.rows.model import Applied, Get, Kind, Partition, Payload, Program, Ref, Row

BATCH_ROWS = 200
BATCH_BYTES = 4 * 2**20


async def rows_of(
    rows: RowBackend, partition: Partition, names: Iterable[Name], payload: Payload = Payload.ALL
) -> AsyncIterator[tuple[Ref, Row]]:
    """Reads the rows of these names that still exist, in order."""
    for batch in batches(names, payload):
        for each in await read(rows, partition, batch, payload):
            yield each


async def whole_rows_of(
    rows: RowBackend, partition: Partition, names: Iterable[Name]
) -> AsyncIterator[tuple[Ref, Row]]:
    """Reads the rows of these names that still exist, in order. A node that cannot be decrypted comes without its
    payloads, because its children need it; other rows that cannot be decrypted are left out."""
    for batch in batches(names):
        for ref, row in await read_each(rows, partition, batch):
            if row is not None:
                yield ref, row
            elif ref.kind is Kind.NODE:
                for each in await read(rows, partition, [ref], Payload.NONE):
                    yield each


async def read_each(
    rows: RowBackend, partition: Partition, batch: Sequence[Ref], payload: Payload = Payload.ALL
) -> Sequence[tuple[Ref, Row | None]]:
    """Reads the rows of one batch that still exist; None for one that cannot be read. With encryption at rest, a
    damaged row fails its whole batch, whose rows are then read one by one."""
    try:
        return await read(rows, partition, batch, payload)
    except InternalError:
        if len(batch) == 1:
            return [(batch[0], None)]
    return [each for ref in batch for each in await read_each(rows, partition, [ref], payload)]


async def read(
    rows: RowBackend, partition: Partition, batch: Sequence[Ref], payload: Payload = Payload.ALL
) -> list[tuple[Ref, Row]]:
    """Reads the rows of one batch that still exist."""
    found = await rows.transact(partition, Program(reads=[Get(ref, payload) for ref in batch]))
    assert isinstance(found, Applied)  # noqa: S101 - there are no guards
    return [(ref, row) for ref, row in zip(batch, found.answers, strict=True) if row is not None]


def batches(names: Iterable[Name], payload: Payload = Payload.ALL) -> Iterator[Sequence[Ref]]:
    """Cuts names into batches of at most BATCH_ROWS rows, and of about BATCH_BYTES."""
    batch: list[Ref] = []
    used = 0
    for ref, size in names:
        read_bytes = size if payload is not Payload.NONE else 0
        if batch and (used + read_bytes > BATCH_BYTES or len(batch) == BATCH_ROWS):
            yield batch
            batch, used = [], 0
        batch.append(ref)
        used += read_bytes
    if batch:
        yield batch
