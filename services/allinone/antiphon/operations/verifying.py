"""Verification of stored data: payloads against their checksums, and references against the rows that they name.

damage   Acknowledged data cannot be read any more, in whole or in part.
hint     A reference to a missing row. The store checks the row before it uses a reference, so a stale one only costs a
         read. Races and cleanup leave some behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

from antiphon.operations.rows_by_name import batches, read_each, rows_of
from antiphon_core.errors import InternalError
from antiphon_core.ids import item_tag
from antiphon_core.ports.jobs import DISPATCH_TENANT
from antiphon_store.decisions import logs, nodes, tenant_line
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
    Span,
    named_node,
)
from antiphon_store.topics.sweeping import home_of
from antiphon_store.topics.trees import tree_of

ENTRIES_PER_PAGE = 500
KEYS_AT_ONCE = 64
CHAIN_BYTES = 2**60  # any number


class Finding(NamedTuple):
    """One damage, or one hint."""

    is_damage: bool
    tenant: str
    text: str


async def verify(
    rows: RowBackend, maintenance: Maintenance, tenant: str | None, on_progress: Progress
) -> AsyncIterator[Finding]:
    """Checks the rows and index entries of a tenant; None: of all tenants."""
    tenants = set()
    async for partition in maintenance.partitions(tenant):
        tenants.add(partition.tenant)
        tree = _Tree(rows, partition)
        async for is_damage, text in tree.findings(await maintenance.names(partition), on_progress):
            yield Finding(is_damage, partition.tenant, text)
    for each in sorted(tenants):
        async for keys in _groups(maintenance.index_keys(each)):
            for found in await asyncio.gather(*[_dangling_entries(rows, key) for key in keys]):
                for text in found:
                    yield Finding(False, each, text)
            on_progress(len(keys))


class _Tree:
    """The rows of one partition, which may change meanwhile: rows are read before the rows that they name, and a row
    that seems to be missing is read once more."""

    def __init__(self, rows: RowBackend, partition: Partition) -> None:
        self._rows = rows
        self._partition = partition
        self._rest: dict[Ref, Row] = {}  # without payloads

    async def findings(self, names: Sequence[Name], on_progress: Progress) -> AsyncIterator[tuple[bool, str]]:
        referring_first = sorted(names, key=lambda name: name.ref, reverse=True)  # sessions, nodes, logs, batches
        has_all_parents = True
        async for ref, row in self._each(referring_first):
            on_progress(1)
            if row is None:
                has_all_parents = has_all_parents and ref.kind is not Kind.NODE
                yield True, f"{ref.kind} {ref.id}: it cannot be read"
                continue
            self._rest[ref] = Row(row.fields)
            for name in _damaged_payloads(ref, row):
                yield True, f"{ref.kind} {ref.id}: the checksum of its {name} differs"
        for ref, row in self._rest.items():
            if text := await self._fault(ref, row):
                has_all_parents = has_all_parents and ref.kind is not Kind.NODE
                yield True, text
            target = _target(self._partition, ref, row.fields)
            if target is not None and not await _is_there(self._rows, *target):
                yield False, f"{ref.kind} {ref.id}: it names {target[1].kind} {target[1].id}, which is not there"
        if has_all_parents:
            for ref in await self._broken_chains():
                yield True, f"node {ref.id}: the chain that ends with it is not whole"

    async def _each(self, names: Sequence[Name]) -> AsyncIterator[tuple[Ref, Row | None]]:
        """Reads the rows of these names that still exist; None for one that cannot be read."""
        for batch in batches(names):
            for each in await read_each(self._rows, self._partition, batch):
                yield each

    async def _fault(self, ref: Ref, row: Row) -> str:
        """The fault in the rows that a row needs; empty if there is none. A row that cannot be read is a finding of its
        own."""
        try:
            return await _CHECKS[ref.kind](self, ref, row) if ref.kind in _CHECKS else ""
        except InternalError:
            return ""

    async def node(self, ref: Ref, row: Row) -> str:
        """The fault of a node's parent or depth."""
        parent_id, depth = row.fields["parent"], row.fields["depth"]
        parent = await self._find(Ref(Kind.NODE, parent_id)) if parent_id is not None else None
        if parent_id is not None and parent is None:
            return f"node {ref.id}: its parent {parent_id} is missing" if await self._is_there(ref) else ""
        if depth != (parent.fields["depth"] + 1 if parent is not None else 0):
            return f"node {ref.id}: its depth {depth} is not the one behind its parent"
        return ""

    async def log(self, ref: Ref, row: Row) -> str:
        """The first gap in the batches of a log."""
        position = 0
        while position < row.fields["next"]:
            batch = await self._find(Ref(Kind.BATCH, logs.batch_id(ref.id, position)))
            if batch is None:
                return f"log {ref.id}: its events from {position} on are missing" if await self._is_there(ref) else ""
            position += batch.fields["count"]
        return ""

    async def _broken_chains(self) -> list[Ref]:
        """The nodes without children whose chain the database does not return completely."""
        by_ref = {ref: row.fields for ref, row in self._rest.items() if ref.kind is Kind.NODE}
        parents = {fields["parent"] for fields in by_ref.values()}
        broken = []
        for ref, length in [(ref, fields["depth"] + 1) for ref, fields in by_ref.items() if ref.id not in parents]:
            chain = Chain(ref.id, Payload.NONE, length, CHAIN_BYTES)
            found = await self._rows.transact(self._partition, Program(reads=[chain]))
            if not isinstance(found, Applied) or len(found.answers[0].ids) not in (0, length):  # 0: it has expired
                broken.append(ref)
        return broken

    async def _find(self, ref: Ref) -> Row | None:
        return self._rest.get(ref) or await _row(self._rows, self._partition, ref)

    async def _is_there(self, ref: Ref) -> bool:
        """Whether the row still exists. Cleanup may have deleted it, and before it the rows that it names."""
        return await _is_there(self._rows, self._partition, ref)


_CHECKS = {Kind.NODE: _Tree.node, Kind.LOG: _Tree.log}


def _target(partition: Partition, ref: Ref, fields: Mapping[str, Any]) -> tuple[Partition, Ref] | None:
    """The row that a session's head, a pointer, an approval or a key names."""
    if ref.kind is Kind.SESSION and fields.get("head") is not None:
        return partition, Ref(Kind.NODE, fields["head"])
    if ref.kind is Kind.POINTER:
        return partition._replace(tree=fields["tree"]), Ref(Kind.SESSION, ref.id)
    if ref.kind is Kind.APPROVAL:
        return partition, Ref(Kind.NODE, fields["response"])
    if ref.kind is Kind.KEY:
        return tree_of(partition.tenant, fields["response"]), Ref(Kind.NODE, fields["response"])
    return None


def _damaged_payloads(ref: Ref, row: Row) -> list[str]:
    """The payloads that differ from their checksums."""
    fields, row_id = row.fields, ref.id
    if ref.kind is Kind.NODE:
        items_crc = nodes.checksum(row_id, fields["input_bytes"], row.items)
        sums = {
            "items": (fields["items_crc"], items_crc),
            "body": (fields["body_crc"], nodes.body_checksum(fields["items_crc"], row.body)),
        }
    elif ref.kind is Kind.BATCH:
        log_id, _, number = row_id.rpartition("/")
        sums = {"frames": (fields["crc"], logs.checksum(log_id, int(number), row.items))}
    else:
        return []
    return [name for name, (written, found) in sums.items() if written != found]


async def _groups(keys: AsyncIterator[IndexKey]) -> AsyncIterator[list[IndexKey]]:
    """Groups of keys to check concurrently: most have one entry."""
    group = []
    async for key in keys:
        group.append(key)
        if len(group) == KEYS_AT_ONCE:
            yield group
            group = []
    yield group


async def _dangling_entries(rows: RowBackend, key: IndexKey) -> list[str]:
    """The entries under a key whose row is missing."""
    found: list[str] = []
    entries: Sequence[Entry] = ()
    while True:
        after = (entries[-1].at, entries[-1].id) if entries else None
        _, entries = await rows.page(key.partition, key.of, key.key, Span(ENTRIES_PER_PAGE, after))
        for each in entries:
            partition, ref = _row_of_entry(key, each)
            if not await _is_there(rows, partition, ref):
                found.append(f"index {key.of} {key.key}: it names {ref.kind} {ref.id}, which is not there")
        if len(entries) < ENTRIES_PER_PAGE:
            return found


def _row_of_entry(key: IndexKey, entry: Entry) -> tuple[Partition, Ref]:
    """The row that an entry names."""
    if key.of not in TENANT_WIDE:
        return key.partition, Ref(Kind.NODE, named_node(entry.id))
    kind, row_id = Kind.JOB, entry.id
    if key.of is Index.ENDS:
        name, _, row_id = entry.id.partition("/")
        kind = Kind(name)
    elif key.of is Index.FOREIGN:
        kind = Kind.NODE
    elif key.of is Index.RESENT:
        kind = Kind.LINEAGE
    elif key.partition.tenant == DISPATCH_TENANT:
        kind, row_id = Kind.LINE, tenant_line.tenant_of(entry.id)
    elif key.of is Index.ASKED:
        tree = Partition(key.partition.tenant, item_tag(row_id) or "")
        return tree, Ref(Kind.APPROVAL, row_id)
    return home_of(key.partition.tenant, kind, row_id), Ref(kind, row_id)


async def _is_there(rows: RowBackend, partition: Partition, ref: Ref) -> bool:
    """Whether the row exists, readable or not."""
    try:
        return await _row(rows, partition, ref) is not None
    except InternalError:
        return True


async def _row(rows: RowBackend, partition: Partition, ref: Ref) -> Row | None:
    async for _, row in rows_of(rows, partition, [Name(ref, 0)], Payload.NONE):
        return row
    return None
