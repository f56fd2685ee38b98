"""A row backend that seals content before it passes it to another row backend, and opens what that one returns.

All payloads (items and bodies of responses, frames of event logs, payloads of jobs, stored prompts) and the fields in
SEALED_FIELDS are sealed. Among these are checksums of payloads and digests of requests: a reader of the database could
otherwise guess short content, such as a PIN, until its digest fits. The digest that an index is searched for is
replaced by its HMAC under a key (`digest_names`). Values that the database compares, orders or counts are not sealed:
ids, tenants, trees, times, statuses, sizes, idempotency keys.

Decisions see plain rows, and a program's guards must never test a sealed field. Work on large payloads runs outside of
the event loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from antiphon_core import offload
from antiphon_core.errors import DataDamaged
from antiphon_store.encryption.payload_cipher import PayloadCipher, bound_to
from antiphon_store.rows.backend import Durability, RowBackend
from antiphon_store.rows.maintenance import MaintainedRows, Maintenance
from antiphon_store.rows.model import (
    NO_ROW,
    Applied,
    Chain,
    ChainRows,
    Change,
    Entry,
    Get,
    Grow,
    Index,
    Kind,
    Outcome,
    Partition,
    Payload,
    Program,
    Put,
    Read,
    Ref,
    Rejection,
    Row,
    Set,
    Span,
    named_node,
    size_of,
)
from antiphon_store.rows.remote import RemoteBackend

SEALED_FIELDS: Mapping[Kind, Sequence[str]] = {
    Kind.NODE: ("items_crc", "body_crc"),
    Kind.CONVERSATION: ("metadata", "origin"),
    Kind.BATCH: ("checkpoint", "crc", "steps"),
    Kind.KEY: ("fingerprint",),
}
_OF_PAYLOAD = {"items_crc": Payload.ITEMS, "body_crc": Payload.ALL}
"""Checksums, which are opened only with the payload that they are about: decisions without it run without keys."""
ITEMS, BODY = "items", "body"


class SealedRows(RemoteBackend):
    """Implements `rows.backend.RowBackend` over any other row backend, `as_stored`, whose rows are sealed."""

    def __init__(self, inner: RowBackend, cipher: PayloadCipher) -> None:
        self._inner = inner
        self._cipher = cipher
        self.open, self.close, self.ready = inner.open, inner.close, inner.ready
        self.children, self.subtree, self.ancestors = inner.children, inner.subtree, inner.ancestors  # no payloads
        self.take_due, self.tenants = inner.take_due, inner.tenants
        self.digest_names = cipher.digest_names  # type: ignore[method-assign]

    @property
    def as_stored(self) -> RowBackend:
        return self._inner

    @property
    def durability(self) -> Durability:
        return self._inner.durability

    @property
    def maintenance(self) -> Maintenance:
        """The maintenance of the inner backend. AttributeError: that backend has none."""
        if not isinstance(self._inner, MaintainedRows):
            raise AttributeError("maintenance")
        return self._inner.maintenance

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        sealed = program
        if program.changes:
            seal = partial(self._sealed_program, partition, program)
            sealed = await offload.run(seal, size_bytes=sum(map(_size_of_change, program.changes)))
        outcome = await self._inner.transact(partition, sealed)
        if isinstance(outcome, Rejection):
            open_rows = partial(self._opened_rows, partition, outcome.rows)
            size_bytes = sum(map(size_of, outcome.rows.values()))
            return outcome._replace(rows=await offload.run(open_rows, size_bytes=size_bytes))
        if not program.reads:
            return outcome
        found = outcome.answers
        open_all = partial(self._opened_answers, partition, program.reads, found)
        return Applied(outcome.now_ms, await offload.run(open_all, size_bytes=sum(map(_size_of_answer, found))))

    async def page(
        self, partition: Partition, index: Index, key: str, span: Span, *, payload: Payload | None = None
    ) -> tuple[int, Sequence[Entry]]:
        now_ms, entries = await self._inner.page(partition, index, key, span, payload=payload)
        if not payload:
            return now_ms, entries
        open_all = partial(self._opened_entries, partition, entries)
        size_bytes = sum(size_of(entry.row) for entry in entries)
        return now_ms, await offload.run(open_all, size_bytes=size_bytes)

    # ---- Sealing ----

    def _sealed_program(self, partition: Partition, program: Program) -> Program:
        return program._replace(changes=[self._seal(partition, change) for change in program.changes])

    def _seal(self, partition: Partition, change: Change) -> Change:
        if not isinstance(change, (Put, Set, Grow)):
            return change
        ref = Ref(Kind.NODE, change.id) if isinstance(change, Grow) else change.ref
        fields, seal = dict(change.fields), self._cipher.seal
        for name in SEALED_FIELDS.get(ref.kind, ()):
            if name in fields:
                fields[name] = self._cipher.seal_field(fields[name], bound_to(partition, ref, name))
        items = None if change.items is None else seal(change.items, bound_to(partition, ref, ITEMS))
        body = None if change.body is None else seal(change.body, bound_to(partition, ref, BODY))
        return change._replace(fields=fields, items=items, body=body)  # type: ignore[arg-type]

    # ---- Opening ----

    def _opened_rows(self, partition: Partition, rows: Mapping[Ref, Row | None]) -> Mapping[Ref, Row | None]:
        return {ref: self._open(partition, ref, row) for ref, row in rows.items()}

    def _opened_answers(self, partition: Partition, reads: Sequence[Read], answers: Sequence[Any]) -> Sequence[Any]:
        return [self._opened_answer(partition, read, found) for read, found in zip(reads, answers, strict=True)]

    def _opened_answer(self, partition: Partition, read: Read, found: Any) -> Any:
        if isinstance(read, Get):
            asked = found if read.payload or found is None else Row(found.fields)
            return self._open(partition, read.ref, asked, read.payload)
        if isinstance(read, Chain):
            return self._opened_chain(partition, found, read.payload)
        return [(row_id, self._open(partition, Ref(read.kind, row_id), row)) for row_id, row in found]

    def _opened_chain(self, partition: Partition, found: ChainRows, payload: Payload) -> ChainRows:
        if payload is Payload.NONE:
            return found
        lineages: Sequence[bytes] = ()
        if payload is Payload.LINEAGE:
            lineages = [self._open_lineage(partition, *each) for each in zip(found.ids, found.bodies, strict=True)]
            found = found._replace(bodies=[b""] * len(found.ids))
        named = found.named_rows()
        rows = [self._open(partition, Ref(Kind.NODE, row_id), row, payload) or NO_ROW for row_id, row in named]
        opened = ChainRows(found.ids, *map(list, zip(*rows, strict=True))) if rows else found
        return opened._replace(bodies=lineages) if lineages else opened

    def _open_lineage(self, partition: Partition, node_id: str, sealed: bytes) -> bytes:
        """The lineage of a response; none if it is damaged, because a turn does not need it."""
        try:
            return self._cipher.open(sealed, bound_to(partition, Ref(Kind.LINEAGE, node_id), ITEMS))
        except DataDamaged:
            return b""

    def _opened_entries(self, partition: Partition, entries: Sequence[Entry]) -> Sequence[Entry]:
        refs = [Ref(Kind.NODE, named_node(entry.id)) for entry in entries]
        return [
            entry._replace(row=self._open(partition, ref, entry.row)) for ref, entry in zip(refs, entries, strict=True)
        ]

    def _open(self, partition: Partition, ref: Ref, row: Row | None, payload: Payload = Payload.ALL) -> Row | None:
        if row is None:
            return None
        fields = row.fields
        for name in SEALED_FIELDS.get(ref.kind, ()):
            if name in fields and _OF_PAYLOAD.get(name, Payload.NONE) in payload:
                value = self._cipher.open_field(fields[name], bound_to(partition, ref, name))
                fields = {**fields, name: value}
        items = self._cipher.open(row.items, bound_to(partition, ref, ITEMS)) if row.items else row.items
        body = self._cipher.open(row.body, bound_to(partition, ref, BODY)) if row.body else row.body
        return Row(fields, items, body)


def _size_of_change(change: Change) -> int:
    return len(change.items or b"") + len(change.body or b"") if isinstance(change, (Put, Set, Grow)) else 0


def _size_of_answer(found: Any) -> int:
    if isinstance(found, ChainRows):
        return sum(map(len, found.items)) + sum(map(len, found.bodies))
    if isinstance(found, list):
        return sum(size_of(row) for _, row in found)
    return size_of(found)
