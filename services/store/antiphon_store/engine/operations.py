"""The operations of one step, made of decisions: each runs one in the tree that its second argument names.

A decision takes a view and the arguments of the operation behind the tenant; its docstring is the operation's promise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from antiphon_core.ports.store import Fence
from antiphon_store.engine.trees import Trees
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.decision import Decision, Finish
from antiphon_store.rows.model import TENANT_WIDE, Entry, Index, Partition
from antiphon_store.rows.runner import DecisionRunner
from antiphon_store.rows.view import View

_Subject = TypeVar("_Subject")
_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")

_Rule = Callable[Concatenate[View, _Subject, _Parameters], Finish[_Answer]]
_Operation = Callable[Concatenate[Any, str, _Subject, _Parameters], Coroutine[Any, Any, _Answer]]


PAGE_ENTRIES = 200


class Operations:
    """The base of all topics of operations: rows, the runner of decisions, and trees."""

    def __init__(self, rows: RowBackend) -> None:
        self._rows = rows
        self._runner = DecisionRunner(rows)
        self._trees = Trees(self._runner)

    async def _entries(
        self,
        partition: Partition,
        index: Index,
        key: str,
        after: tuple[int, str] | None = None,
        *,
        limit: int = PAGE_ENTRIES,
        descending: bool = False,
    ) -> AsyncIterator[tuple[int, Entry]]:
        """Entries behind `after`, a page at a time, each with the time of its page, and with its node where that is of
        the partition."""
        size, with_rows = min(limit, PAGE_ENTRIES), index not in TENANT_WIDE
        while True:
            now_ms, page = await self._rows.page(
                partition, index, key, after=after, limit=size, descending=descending, with_rows=with_rows
            )
            for each in page:
                yield now_ms, each
            if len(page) < size:
                return
            after = (page[-1].at, page[-1].id)


def on_response(
    rule: _Rule[str, _Parameters, _Answer], *, only_reads: bool = False
) -> _Operation[str, _Parameters, _Answer]:
    """Runs `rule` in the tree of a response, job or conversation of that id."""
    return _operation(rule, partial(Trees.of_response, only_reads=only_reads))


def on_session(
    rule: _Rule[str, _Parameters, _Answer], *, only_reads: bool = False
) -> _Operation[str, _Parameters, _Answer]:
    """Runs `rule` in the tree of a session of that id."""
    return _operation(rule, partial(Trees.of_session, only_reads=only_reads))


def under_fence(rule: _Rule[Fence, _Parameters, _Answer]) -> _Operation[Fence, _Parameters, _Answer]:
    """Runs `rule` in the tree of the session that a fence names."""

    def run(trees: Trees, tenant: str, fence: Fence, decision: Decision[_Answer]) -> Awaitable[_Answer]:
        return trees.of_session(tenant, fence.session_id, decision)

    return _operation(rule, run)


def _operation(
    rule: _Rule[_Subject, _Parameters, _Answer],
    run: Callable[[Trees, str, _Subject, Decision[_Answer]], Awaitable[_Answer]],
) -> _Operation[_Subject, _Parameters, _Answer]:
    @wraps(rule)
    async def operation(
        self: Operations, tenant: str, subject: _Subject, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Answer:
        return await run(self._trees, tenant, subject, lambda view: rule(view, subject, *args, **kwargs))

    return operation
