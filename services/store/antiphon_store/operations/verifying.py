"""Verification of what is stored: bytes against their checksums, and names against what they name.

damage   Something that was acknowledged cannot be read any more, in whole or in part.
hint     A name that leads nowhere. Everybody who follows one looks at the row first, so it costs a look and no more.
         Races and cleanup leave some behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from antiphon_store.backends import packing
from antiphon_store.decisions import logs
from antiphon_store.engine.reclaiming import partition_of
from antiphon_store.operations.rows_by_name import rows_of
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.maintenance import IndexKey, Maintenance, Name, Progress
from antiphon_store.rows.model import (
    TENANT_WIDE,
    Applied,
    Chain,
    Entry,
    Index,
    Kind,
    Partition,
    Payload,
    Program,
    Ref,
    Row,
    named_node,
)

ENTRIES_PER_PAGE = 500
KEYS_AT_ONCE = 64
CHAIN_BYTES = 2**60  # any number


class Finding(NamedTuple):
    """One thing that is not as it should be."""

    is_damage: bool
    tenant: str
    text: str


async def verify(
    rows: RowBackend, maintenance: Maintenance, tenant: str | None, on_progress: Progress
) -> AsyncIterator[Finding]:
    """Looks at everything of a tenant, or of all."""
    tenants = set()
    async for partition in maintenance.partitions(tenant):
        tenants.add(partition.tenant)
        tree = _Tree(rows, partition)
        async for is_damage, text in tree.findings(await maintenance.names(partition), on_progress):
            yield Finding(is_damage, partition.tenant, text)
    for each in sorted(tenants):
        async for keys in _groups(maintenance.index_keys(each)):
            for found in await asyncio.gather(*[_dangling_entries(rows, key) for key in keys]):
                on_progress(1)
                for text in found:
                    yield Finding(False, each, text)


class _Tree:
    """The rows of one partition. Others may write meanwhile: so what names others is read first, and what seems to be
    missing is looked for once more."""

    def __init__(self, rows: RowBackend, partition: Partition) -> None:
        self._rows = rows
        self._partition = partition
        self._rest: dict[Ref, Row] = {}  # without payloads

    async def findings(self, names: Sequence[Name], on_progress: Progress) -> AsyncIterator[tuple[bool, str]]:
        for_names_first = sorted(names, key=lambda name: name.ref, reverse=True)  # sessions, nodes, logs, batches
        async for ref, row in rows_of(self._rows, self._partition, for_names_first):
            on_progress(1)
            self._rest[ref] = Row(row.fields)
            for name in _damaged_payloads(ref, row):
                yield True, f"{ref.kind} {ref.id}: the checksum of its {name} differs"
        has_all_parents = True
        for ref, row in self._rest.items():
            for is_damage, text in await _CHECKS[ref.kind](self, ref, row) if ref.kind in _CHECKS else ():
                has_all_parents = has_all_parents and not (is_damage and ref.kind is Kind.NODE)
                yield is_damage, text
        if has_all_parents:
            for ref in await self._broken_chains():
                yield True, f"node {ref.id}: the chain that ends with it is not whole"

    async def node(self, ref: Ref, row: Row) -> Iterable[tuple[bool, str]]:
        """Its parent, and the depth behind it."""
        parent_id, depth = row.fields["parent"], row.fields["depth"]
        parent = await self._find(Ref(Kind.NODE, parent_id)) if parent_id is not None else None
        if parent_id is not None and parent is None:
            return [(True, f"node {ref.id}: its parent {parent_id} is missing")] if await self._find_now(ref) else []
        if depth != (parent.fields["depth"] + 1 if parent is not None else 0):
            return [(True, f"node {ref.id}: its depth {depth} is not the one behind its parent")]
        return []

    async def log(self, ref: Ref, row: Row) -> Iterable[tuple[bool, str]]:
        """Its batches, one behind the other up to its end."""
        position = 0
        while position < row.fields["next"]:
            batch = await self._find(Ref(Kind.BATCH, logs.batch_id(ref.id, position)))
            if batch is None:
                missing = f"log {ref.id}: its events from {position} on are missing"
                return [(True, missing)] if await self._find_now(ref) else []
            position += batch.fields["count"]
        return []

    async def session(self, ref: Ref, row: Row) -> Iterable[tuple[bool, str]]:
        head = row.fields.get("head")
        if head is None or await self._find(Ref(Kind.NODE, head)) is not None:
            return []
        return [(False, f"session {ref.id}: its head {head} is gone, as it is when its time is over")]

    async def pointer(self, ref: Ref, row: Row) -> Iterable[tuple[bool, str]]:
        tree = row.fields["tree"]
        session = await _row(self._rows, self._partition._replace(tree=tree), Ref(Kind.SESSION, ref.id))
        return [] if session is not None else [(False, f"pointer {ref.id}: it has no session in tree {tree}")]

    async def key(self, ref: Ref, row: Row) -> Iterable[tuple[bool, str]]:
        response_id = row.fields["response"]
        there = partition_of(self._partition.tenant, Kind.NODE, response_id)
        is_there = await _row(self._rows, there, Ref(Kind.NODE, response_id)) is not None
        return [] if is_there else [(False, f"key {ref.id}: its response {response_id} is not there")]

    async def _broken_chains(self) -> list[Ref]:
        """The nodes without children of which the database does not find all ancestors."""
        nodes = {ref: row.fields for ref, row in self._rest.items() if ref.kind is Kind.NODE}
        parents = {fields["parent"] for fields in nodes.values()}
        broken = []
        for ref, length in [(ref, fields["depth"] + 1) for ref, fields in nodes.items() if ref.id not in parents]:
            chain = Chain(ref.id, Payload.NONE, length, CHAIN_BYTES)
            found = await self._rows.transact(self._partition, Program(reads=[chain]))
            if not isinstance(found, Applied) or len(found.answers[0]) not in (0, length):  # none: its time is over
                broken.append(ref)
        return broken

    async def _find(self, ref: Ref) -> Row | None:
        return self._rest.get(ref) or await self._find_now(ref)

    async def _find_now(self, ref: Ref) -> Row | None:
        return await _row(self._rows, self._partition, ref)


_CHECKS = {
    Kind.NODE: _Tree.node,
    Kind.LOG: _Tree.log,
    Kind.SESSION: _Tree.session,
    Kind.POINTER: _Tree.pointer,
    Kind.KEY: _Tree.key,
}


def _damaged_payloads(ref: Ref, row: Row) -> list[str]:
    """The payloads that differ from their checksums."""
    fields, row_id = row.fields, ref.id
    if ref.kind is Kind.NODE:
        sums = {
            "items": (fields["items_crc"], packing.checksum(row_id, fields["input_bytes"], row.items)),
            "body": (fields["body_crc"], packing.body_checksum(row_id, row.body)),
        }
    elif ref.kind is Kind.BATCH:
        log_id, _, number = row_id.rpartition("/")
        sums = {"frames": (fields["crc"], logs.checksum(log_id, int(number), row.items))}
    else:
        return []
    return [name for name, (written, found) in sums.items() if written != found]


async def _groups(keys: AsyncIterator[IndexKey]) -> AsyncIterator[Sequence[IndexKey]]:
    group = []
    async for key in keys:
        group.append(key)
        if len(group) == KEYS_AT_ONCE:
            yield group
            group = []
    yield group


async def _dangling_entries(rows: RowBackend, key: IndexKey) -> list[str]:
    """The entries under a key that name no row."""
    after: tuple[int, str] | None = None
    found = []
    while True:
        _, entries = await rows.page(key.partition, key.of, key.key, after=after, limit=ENTRIES_PER_PAGE)
        for each in entries:
            partition, ref = _named(key, each)
            if await _row(rows, partition, ref) is None:
                found.append(f"index {key.of} {key.key}: it names {ref.kind} {ref.id}, which is not there")
        if len(entries) < ENTRIES_PER_PAGE:
            return found
        after = entries[-1].at, entries[-1].id


def _named(key: IndexKey, entry: Entry) -> tuple[Partition, Ref]:
    """The row that an entry names."""
    if key.of not in TENANT_WIDE:
        return key.partition, Ref(Kind.NODE, named_node(entry.id))
    kind, row_id = Kind.JOB, entry.id
    if key.of is Index.ENDS:
        name, _, row_id = entry.id.partition("/")
        kind = Kind(name)
    elif key.of is Index.ITEM:
        kind = Kind.NODE
    return partition_of(key.partition.tenant, kind, row_id), Ref(kind, row_id)


async def _row(rows: RowBackend, partition: Partition, ref: Ref) -> Row | None:
    async for _, row in rows_of(rows, partition, [Name(ref, 0)], Payload.NONE):
        return row
    return None
