"""The base of all topics, and operations of one step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from antiphon_core.ids import Ids, RandomIds
from antiphon_core.ports.quotas import QuotaAnswer, QuotaRequest
from antiphon_store.calls import OPERATION_OF
from antiphon_store.decisions import prompts
from antiphon_store.joint_calls import JointCalls
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.model import Entry, Index, Partition, Payload, Span
from antiphon_store.rows.view import Decision, Finish
from antiphon_store.settings import StoreSettings
from antiphon_store.topics.idempotency_keys import IdempotencyKeys
from antiphon_store.topics.trees import Trees, session_of
from antiphon_store.waiting import WaitingLines

_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")
_Method = Callable[Concatenate[Any, _Parameters], Coroutine[Any, Any, _Answer]]

Named = Mapping[str, Any]  # arguments
Home = Callable[..., Awaitable[Any]]
"""Runs a decision in the partition that arguments name: trees, tenant, arguments, decision, only_reads."""

PAGE_ENTRIES = 200
ROWS_AT_ONCE = 32
"""The most responses that are read together with their payloads, which may have RECORD_BYTES_MAX each."""


class Topic:
    """The operations of one topic. All topics share the rows, the trees, the keys and the waiters."""

    def __init__(self, rows: RowBackend, settings: StoreSettings | None = None, *, ids: Ids | None = None) -> None:
        self._rows = rows
        self._settings = settings or StoreSettings()
        self._ids = ids or RandomIds()
        self._trees = Trees(rows)
        self._unopened = Trees(rows.as_stored)  # whose rows stay sealed
        self._bare = Trees(rows.as_stored, payload=Payload.NONE)  # for decisions that need no payload
        self._keys = IdempotencyKeys(self._trees)
        self._joint_requests: dict[str, JointCalls[QuotaRequest, QuotaAnswer]] = {}  # by tenant
        self._page_locks = WeakValueDictionary[str, asyncio.Lock]()  # by tenant
        self._hidden: set[tuple[str, str]] = set()  # tenants and queues of claims that failed
        self._session_lines = WaitingLines(poll_s=self._settings.lease_poll_ms / 1000)
        self._followers = WaitingLines(poll_s=self._settings.event_poll_ms / 1000)
        self._claimers = WaitingLines(poll_s=self._settings.job_poll_ms / 1000)

    async def _page(
        self, tenant: str, index: Index, key: str, limit: int, *, descending: bool = False
    ) -> tuple[int, Sequence[Entry]]:
        """The time, and the first entries of a tenant-wide index."""
        return await self._rows.page(Partition(tenant, ""), index, key, Span(limit, is_descending=descending))

    async def _entries(
        self,
        partition: Partition,
        index: Index,
        key: str,
        after: tuple[int, str] | None = None,
        *,
        limit: int = PAGE_ENTRIES,
        descending: bool = False,
        payload: Payload | None = None,
    ) -> AsyncIterator[tuple[int, Entry]]:
        """Entries after `after`, read a page at a time, each with the time of its page. `payload`: as in
        `RowBackend.page`."""
        size = min(limit, ROWS_AT_ONCE if payload else PAGE_ENTRIES)
        while True:
            span = Span(size, after, descending)
            now_ms, page = await self._rows.page(partition, index, key, span, payload=payload)
            for each in page:
                yield now_ms, each
            if len(page) < size:
                return
            after = (page[-1].at, page[-1].id)


# ---- Homes: in which partition the decision of an operation runs ----


def of_id(name: str) -> Home:
    """In the tree of the response, job or conversation that an argument names."""
    return lambda trees, tenant, named, decision, **how: trees.of_response(tenant, named[name], decision, **how)


def of_session(trees: Trees, tenant: str, named: Named, decision: Decision[Any], **how: Any) -> Awaitable[Any]:
    return trees.of_session(tenant, named["session_id"], decision, **how)


def of_fence(trees: Trees, tenant: str, named: Named, decision: Decision[Any], **how: Any) -> Awaitable[Any]:
    return trees.of_session(tenant, named["fence"].session_id, decision, **how)


def of_changed_record(trees: Trees, tenant: str, named: Named, decision: Decision[Any], **_how: Any) -> Awaitable[Any]:
    """In the tree of a response, to which the session of the precondition's fence belongs."""
    sessions = session_of(named["precondition"].fence, "precondition.")
    return trees.of_record(tenant, named["response_id"], sessions, decision)


def of_prompts(trees: Trees, tenant: str, _named: Named, decision: Decision[Any], **how: Any) -> Awaitable[Any]:
    return trees.run(prompts.partition_of(tenant), decision, **how)


def one_step(
    port: _Method[_Parameters, _Answer],
    rule: Callable[..., Finish[_Answer]],
    home: Home,
    *,
    only_reads: bool = False,
    needs_content: bool = True,
) -> _Method[_Parameters, _Answer]:
    """Makes the method of `port`, which completes and checks the arguments, and runs `rule` on those after the tenant.
    `needs_content`: the rule uses payloads, or fields that may be sealed."""
    bind = OPERATION_OF[port].bind

    @wraps(port)
    async def operation(self: Topic, /, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Answer:
        named = bind(args, kwargs)
        tenant, trees = named.pop("tenant"), self._trees if needs_content else self._bare
        answer: _Answer = await home(trees, tenant, named, partial(rule, **named), only_reads=only_reads)
        return answer

    operation.__doc__ = port.__doc__ or rule.__doc__
    return operation
