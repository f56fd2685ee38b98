"""Rows for tests of the store: views of rows for decisions, and a backend that records its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from antiphon_core.clock import Clock
from antiphon_core.ports.store import Record, Status
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.decisions import nodes
from antiphon_store.rows.backend import Durability
from antiphon_store.rows.model import (
    ChainRows,
    Change,
    Condition,
    Delete,
    Entry,
    File,
    Grow,
    Guard,
    Index,
    Kind,
    Outcome,
    Partition,
    Payload,
    Program,
    Put,
    Ref,
    Rejection,
    Row,
    Set,
    Span,
    Unfile,
)
from antiphon_store.rows.remote import RemoteBackend
from antiphon_store.rows.view import View

NOW_MS = 1_000
_Answer = TypeVar("_Answer")
Rows = Mapping[tuple[Kind, str], Row | None]


def view_of(rows: Rows | None = None, *, now_ms: int = NOW_MS, too_long: str = "", crowded: bool = False) -> View:
    """Returns a view that knows exactly these rows. None stands for a row that is known to be missing."""
    known = {Ref(*name): row for name, row in (rows or {}).items()}
    return View(known, Rejection(now_ms if rows or too_long or crowded else 0, {}, too_long, crowded))


def decided(decision: Callable[[View], object], rows: Rows | None = None, **options: Any) -> Program:
    """Returns the program of a decision that sees these rows."""
    view = view_of(rows, **options)
    decision(view)
    return view.program()


def answered(decision: Callable[[View], Callable[[Sequence[Any]], _Answer]], rows: Rows) -> _Answer:
    """Returns the answer of a decision that needs no further reads."""
    view = view_of(rows)
    finish = decision(view)
    assert not view.has_effects, view.program()
    return finish(())


def row(items: bytes = b"", body: bytes = b"", **fields: Any) -> Row:
    return Row({"v": 1, **fields}, items, body)


def node(record: Record, **fields: Any) -> Row:
    """Returns the stored row of a record, with the fields of the backend and of the test."""
    written, items, body = nodes.write_node(record)
    backend_fields = {"v": 1, "version": 1, "depth": 0, "created": 10, "updated": 20}
    return Row({**written, **backend_fields, **fields}, items, body)


def chain_rows(nodes_: Sequence[tuple[str, Row]]) -> ChainRows:
    """Returns the rows of a chain of these nodes."""
    return ChainRows(*zip(*((row_id, *row) for row_id, row in nodes_), strict=True))


def with_status(record: Record, status: Status) -> Record:
    return replace(record, status=status)


def guards_on(program: Program, kind: Kind) -> list[tuple[Any, ...]]:
    """Returns the guards on rows of one kind: condition, field and value."""
    found = [each for each in program.guards if isinstance(each, Guard) and each.ref.kind is kind]
    return [(each.test, each.field, each.value) for each in found]


def pins(program: Program) -> set[Ref]:
    """Returns the rows that must not have changed since they were read."""
    found = [each for each in program.guards if isinstance(each, Guard)]
    return {each.ref for each in found if each.field == "v" or each.test is Condition.ABSENT}


def shown(program: Program) -> list[tuple[Any, ...]]:
    """Returns a summary of the changes: operation and row, without fields."""
    return [_shown(each) for each in program.changes]


def fields_of(program: Program, kind: Kind) -> dict[str, Any]:
    """Returns the fields that a program writes to the only row of a kind."""
    (change,) = [each for each in program.changes if isinstance(each, (Put, Set)) and each.ref.kind is kind]
    return dict(change.fields)


def _shown(change: Change) -> tuple[Any, ...]:
    match change:
        case Put(ref) | Set(ref) | Delete(ref):
            return (type(change).__name__.lower(), *ref)
        case Grow(node_id, parent):
            return ("grow", node_id, parent)
        case File(index, key, entry_id, _) | Unfile(index, key, entry_id, _):
            return (type(change).__name__.lower(), index, key, entry_id)
        case _:
            return ("delete_below", *change)


class SpiedRows(RemoteBackend):
    """Rows in memory behind a remote backend that records its calls and runs a test's callbacks between them."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.rows = MemoryRows(clock)
        self.calls: list[str] = []  # the primitives, in order
        self.nodes_read = 0  # by pages, children, subtrees and ancestors
        self.programs: list[tuple[Partition, Program]] = []
        self.before_transact: Callable[[Partition, Program], Awaitable[None]] | None = None
        self.after_transact: Callable[[Partition, Program], Awaitable[None]] | None = None
        self.after_page: Callable[[Index, str], Awaitable[None]] | None = None

    @property
    def durability(self) -> Durability:
        return self.rows.durability

    def forget_calls(self) -> None:
        self.calls.clear()
        self.programs.clear()
        self.nodes_read = 0

    async def open(self) -> None:
        await self.rows.open()

    async def close(self) -> None:
        await self.rows.close()

    async def ready(self) -> None:
        await self.rows.ready()

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        self.calls.append("transact")
        self.programs.append((partition, program))
        if self.before_transact is not None:
            await self.before_transact(partition, program)
        outcome = await self.rows.transact(partition, program)
        if self.after_transact is not None:
            await self.after_transact(partition, program)
        return outcome

    async def page(
        self, partition: Partition, index: Index, key: str, span: Span, *, payload: Payload | None = None
    ) -> tuple[int, Sequence[Entry]]:
        self.calls.append("page")
        found = self._counted(await self.rows.page(partition, index, key, span, payload=payload))
        if self.after_page is not None:
            await self.after_page(index, key)
        return found

    async def children(
        self, partition: Partition, parents: Sequence[str], *, max_nodes: int
    ) -> tuple[int, Sequence[Entry]]:
        self.calls.append("children")
        return self._counted(await self.rows.children(partition, parents, max_nodes=max_nodes))

    async def subtree(
        self, partition: Partition, starts: Sequence[str], *, max_nodes: int
    ) -> tuple[int, Sequence[Entry]]:
        self.calls.append("subtree")
        return self._counted(await self.rows.subtree(partition, starts, max_nodes=max_nodes))

    async def ancestors(self, partition: Partition, node_ids: Sequence[str], *, depth: int) -> Mapping[str, str]:
        self.calls.append("ancestors")
        self.nodes_read += len(node_ids)
        return await self.rows.ancestors(partition, node_ids, depth=depth)

    async def take_due(self, tenant: str, index: Index, key: str, *, limit: int, hide_ms: int) -> Sequence[Entry]:
        self.calls.append("take_due")
        return await self.rows.take_due(tenant, index, key, limit=limit, hide_ms=hide_ms)

    async def tenants(self) -> Sequence[str]:
        self.calls.append("tenants")
        return await self.rows.tenants()

    def _counted(self, answer: tuple[int, Sequence[Entry]]) -> tuple[int, Sequence[Entry]]:
        self.nodes_read += len(answer[1])
        return answer
