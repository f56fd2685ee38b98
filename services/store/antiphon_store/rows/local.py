"""The primitives of a backend whose rows are in this process: each is one step on `LocalRows`.

A decision runs inside a step: it needs no assumptions, no guards on rows and no retries, because nothing else changes
the rows meanwhile. It is the same function that runs over a `View` of the rows of a remote database (`rows.remote`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from operator import methodcaller
from typing import Self, TypeVar

from antiphon_store.rows.local_rows import LocalRows
from antiphon_store.rows.model import Entry, Index, Outcome, Partition, Payload, Program, Span, named_node
from antiphon_store.rows.view import Decision

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

    @property
    def as_stored(self) -> Self:
        return self

    def digest_names(self, digest: bytes) -> Sequence[str]:
        return [digest.hex()]

    async def decide(
        self,
        partition: Partition,
        decision: Decision[_Answer],
        *,
        only_reads: bool = False,
        payload: Payload = Payload.ALL,
    ) -> _Answer:
        def attempt(rows: LocalRows) -> _Answer | Exception:
            try:
                return rows.decide(decision)
            except Exception as error:
                if rows.has_changed or isinstance(error, rows.faults):
                    raise
                return error  # nothing was changed, so the other steps of its transaction go on

        answer = await self.step(partition, attempt, only_reads=only_reads)
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
        take = methodcaller("take_due", index, key, limit=limit, hide_ms=hide_ms)
        taken: Sequence[Entry] = await self.step(Partition(tenant, ""), take, only_reads=False)
        return taken


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
