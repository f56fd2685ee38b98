"""The primitives of a backend whose rows are in this process: each is one step on `LocalRows`.

A decision runs inside a step: it needs no assumptions, no guards on rows and no retries, because nothing else changes
the rows meanwhile. The decision is the function that runs over a `View` of the rows of a remote database.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

from antiphon_store.rows.local_rows import LocalRows, TooLong
from antiphon_store.rows.model import (
    Condition,
    Entry,
    Fewer,
    Get,
    Index,
    Kind,
    Outcome,
    Partition,
    Payload,
    Program,
    Read,
    Ref,
    Refused,
    Row,
    Span,
    Value,
    meets,
    named_node,
)
from antiphon_store.rows.view import Decision, Finish, View, require_whole_chains

_Answer = TypeVar("_Answer")


class LocalBackend(ABC):
    """The primitives of `rows.backend.RowBackend`, each as one step on local rows."""

    @abstractmethod
    def step(
        self, partition: Partition, work: Callable[[LocalRows], _Answer], *, only_reads: bool
    ) -> Awaitable[_Answer]:
        """Runs `work` in one transaction, which is undone if `work` raises. An error that `work` returns means that it
        changed nothing; `step` returns or raises that error."""

    async def transact(self, partition: Partition, program: Program) -> Outcome:
        return await self.step(partition, lambda rows: rows.run(program), only_reads=not program.changes)

    async def decide(self, partition: Partition, decision: Decision[_Answer], *, only_reads: bool) -> _Answer:
        """Runs a decision in one step and returns its result. `only_reads`: the decision changes nothing."""
        answer = await self.step(partition, partial(_attempt, decision=decision), only_reads=only_reads)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def page(
        self, partition: Partition, index: Index, key: str, span: Span, *, payload: Payload | None = None
    ) -> tuple[int, Sequence[Entry]]:
        def read(rows: LocalRows) -> tuple[int, Sequence[Entry]]:
            found = rows.entries(index, key, span)
            if payload is not None:
                named = rows.nodes([named_node(each.id) for each in found], payload)
                found = [each._replace(row=row) for each, row in zip(found, named, strict=True)]
            return rows.now_ms, found

        return await self.step(partition, read, only_reads=True)

    async def children(
        self, partition: Partition, parents: Sequence[str], *, max_nodes: int
    ) -> tuple[int, Sequence[Entry]]:
        def read(rows: LocalRows) -> tuple[int, Sequence[Entry]]:
            return rows.now_ms, rows.children(parents, max_nodes)

        return await self.step(partition, read, only_reads=True)

    async def subtree(
        self, partition: Partition, starts: Sequence[str], *, max_nodes: int
    ) -> tuple[int, Sequence[Entry]]:
        def read(rows: LocalRows) -> tuple[int, Sequence[Entry]]:
            return rows.now_ms, list(islice(rows.below(starts), max_nodes))

        return await self.step(partition, read, only_reads=True)

    async def ancestors(self, partition: Partition, node_ids: Sequence[str], *, depth: int) -> Mapping[str, str]:
        def read(rows: LocalRows) -> Mapping[str, str]:
            return ancestors(node_ids, rows.links_above(node_ids, depth), depth)

        return await self.step(partition, read, only_reads=True)

    async def take_due(self, tenant: str, index: Index, key: str, *, limit: int, hide_ms: int) -> Sequence[Entry]:
        def take(rows: LocalRows) -> Sequence[Entry]:
            return rows.take_due(index, key, limit=limit, hide_ms=hide_ms)

        return await self.step(Partition(tenant, ""), take, only_reads=False)


def ancestors(node_ids: Sequence[str], links: Mapping[str, tuple[str | None, int]], depth: int) -> dict[str, str]:
    """The ancestors at a depth. `links` has the parent and the depth of each node on the way there."""
    found: dict[str, str] = {}
    for node_id in node_ids:
        path: list[str] = []
        step: str | None = node_id
        while step is not None and step not in found and step in links and links[step][1] > depth:
            path.append(step)
            step = links[step][0]
        if step is not None and (step in found or (step in links and links[step][1] == depth)):
            found |= dict.fromkeys((*path, step), found.get(step, step))
    return {each: found[each] for each in node_ids if each in found}


def _attempt(rows: LocalRows, decision: Decision[_Answer]) -> _Answer | Exception:
    """The result of a decision, or its error if nothing was changed."""
    try:
        return decide(rows, decision)
    except Exception as error:
        if rows.has_changed or isinstance(error, rows.faults):
            raise
        return error


def decide(rows: LocalRows, decision: Decision[_Answer]) -> _Answer:
    """Runs a decision over rows and applies its program. An error of the decision itself has changed nothing."""
    refused = Refused(rows.now_ms, {})
    while True:  # ends: a decision raises if its view says that a bound was exceeded
        view = _LocalView(rows, refused)
        finish = decision(view)
        program = view.program()
        if program.guards and not all(rows.has_fewer(each) for each in program.guards if isinstance(each, Fewer)):
            refused = Refused(rows.now_ms, {}, crowded=True)
            continue
        try:
            answers = rows.apply(program)
            require_whole_chains(answers)
            return finish(answers)
        except TooLong as bound:
            refused = Refused(rows.now_ms, {}, too_long=str(bound))


class _LocalView(View):
    """A view that knows every row."""

    def __init__(self, rows: LocalRows, refused: Refused) -> None:
        super().__init__({}, refused)
        self._rows = rows

    def test(self, kind: Kind, row_id: str, test: Condition, field: str = "", value: Value = None) -> bool:
        return meets(test, field, value, self._rows.row(Ref(kind, row_id)), self.now_ms)

    def need(self, kind: Kind, row_id: str) -> Row | None:
        return self._rows.whole_row(Ref(kind, row_id))

    def need_all(self, *refs: tuple[Kind, str]) -> list[Row | None]:
        return [self._rows.whole_row(Ref(*each)) for each in refs]

    def peek(self, kind: Kind, row_id: str) -> Row | None:
        return self._rows.row(Ref(kind, row_id))

    def answer_from(self, make: Callable[..., _Answer], *reads: Read) -> Finish[_Answer]:
        for read in reads:
            if type(read) is Get and read.payload:
                self._rows.whole_row(read.ref)  # so that a later test of it does not read it without payloads first
        return super().answer_from(make, *reads)
