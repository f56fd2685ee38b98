"""Compares a store with the memory backend: random sequences of operations must have equal answers and errors.

    TestAgainstMemory = machine(open_my_store).TestCase

`open_my_store` takes a clock and returns an asynchronous context with a store that uses it. The store may contain data:
each sequence has a tenant of its own.
"""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from antiphon_core.clock import Clock, ManualClock
from antiphon_core.errors import AntiphonError
from antiphon_core.ports.store import (
    Fence,
    Precondition,
    Record,
    ResponseStore,
    Status,
    TurnCommit,
    TurnRequest,
)
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft, new_session_id, turn_in

T = TypeVar("T")
Ask = Callable[[ResponseStore], Awaitable[Any]]
OpenStore = Callable[[Clock], AbstractAsyncContextManager[ResponseStore]]

_FIRST = new_session_id()
SESSIONS = (_FIRST, new_session_id(beside=_FIRST))  # in one tree with every response
STEP_MS = 400  # lifetimes are one to three steps, so that sequences meet times before, at and after an expiry

ttls = st.sampled_from((None, STEP_MS, 3 * STEP_MS))
sessions = st.sampled_from(SESSIONS)
holders = st.sampled_from(("a", "b"))
statuses = st.sampled_from((Status.IN_PROGRESS, Status.COMPLETED))
fences = st.builds(Fence, sessions, st.integers(1, 5))
preconditions = st.builds(
    Precondition,
    version=st.sampled_from((None, 0, 1, 2, 3)),
    statuses=st.frozensets(statuses, max_size=1),
    unless_statuses=st.frozensets(statuses, max_size=1),
    fence=st.none() | fences,
)


def machine(open_store: OpenStore) -> type[RuleBasedStateMachine]:
    """Makes the state machine for one implementation; pytest runs its `TestCase`."""
    name = f"{StoreMachine.__name__}_{getattr(open_store, '__name__', 'store')}"
    made: type[StoreMachine] = type(name, (StoreMachine,), {"open_store": staticmethod(open_store)})
    made.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None, database=None)
    return made


class StoreMachine(RuleBasedStateMachine):
    """Makes each call on both stores, and compares the outcomes."""

    open_store: OpenStore
    responses = Bundle("responses")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.tenant = f"tenant-{secrets.token_hex(4)}"
        self.runner = asyncio.Runner()
        self.known: list[Record] = []

    @initialize()
    def open(self) -> None:
        model = StoreService(MemoryRows(self.clock))
        self.run(model.open())
        self.model: ResponseStore = model
        self.context = self.open_store(self.clock)
        self.subject: ResponseStore = self.run(_enter(self.context))

    def teardown(self) -> None:
        if hasattr(self, "context"):
            self.run(_leave(self.context))
        self.runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Replaces `Runner.run`, which sets a signal handler each time: that takes longer than most calls."""
        return self.runner.get_loop().run_until_complete(work)

    def same(self, *asks: Ask) -> None:
        """Makes the calls concurrently, so several calls must be reads."""
        expected = self.run(_outcomes(self.model, asks))
        assert self.run(_outcomes(self.subject, asks)) == expected

    # ---- Records ----

    @rule(target=responses, status=statuses, ttl_ms=ttls)
    def put_root(self, status: Status, ttl_ms: int | None) -> Record:
        record = draft(status=status, tag=SESSIONS[0])
        self.same(lambda store: store.put(self.tenant, record, ttl_ms=ttl_ms))
        self.known.append(record)
        return record

    @rule(target=responses, parent=responses, status=statuses, ttl_ms=ttls, condition=st.none() | preconditions)
    def put_child(self, parent: Record, status: Status, ttl_ms: int | None, condition: Precondition | None) -> Record:
        record = draft(parent, status=status)
        self.same(lambda store: store.put(self.tenant, record, ttl_ms=ttl_ms, precondition=condition or Precondition()))
        self.known.append(record)
        return record

    @rule(record=responses, ttl_ms=ttls)
    def put_again(self, record: Record, ttl_ms: int | None) -> None:
        self.same(lambda store: store.put(self.tenant, record, ttl_ms=ttl_ms))

    @rule(record=responses, status=statuses, ttl_ms=ttls, condition=preconditions)
    def put_over(self, record: Record, status: Status, ttl_ms: int | None, condition: Precondition) -> None:
        changed = replace(record, status=status, output_items=b"[]")
        self.same(lambda store: store.put(self.tenant, changed, ttl_ms=ttl_ms, precondition=condition))

    @rule(record=responses)
    def delete(self, record: Record) -> None:
        self.same(lambda store: store.delete(self.tenant, record.id))

    @rule(record=responses, condition=preconditions)
    def delete_if(self, record: Record, condition: Precondition) -> None:
        self.same(lambda store: store.delete(self.tenant, record.id, precondition=condition))

    @rule(record=responses, max_depth=st.integers(1, 4), max_bytes=st.integers(1, 900))
    def read_short_chain(self, record: Record, max_depth: int, max_bytes: int) -> None:
        self.same(lambda store: store.chain(self.tenant, record.id, max_depth=max_depth, max_bytes=max_bytes))

    # ---- Sessions and turns ----

    @rule(session_id=sessions, holder=holders)
    def acquire(self, session_id: str, holder: str) -> None:
        self.same(lambda store: store.acquire_session(self.tenant, session_id, holder=holder, ttl_ms=2 * STEP_MS))

    @rule(fence=fences)
    def renew(self, fence: Fence) -> None:
        self.same(lambda store: store.renew_session(self.tenant, fence, ttl_ms=2 * STEP_MS))

    @rule(fence=fences)
    def release(self, fence: Fence) -> None:
        self.same(lambda store: store.release_session(self.tenant, fence))

    @rule(record=responses, max_depth=st.integers(1, 4))
    def begin_after(self, record: Record, max_depth: int) -> None:
        request = TurnRequest(previous_response_id=record.id, max_depth=max_depth)
        self.same(lambda store: store.begin_turn(self.tenant, request))

    @rule(session_id=sessions, holder=holders, max_depth=st.integers(2, 4))
    def begin_in_session(self, session_id: str, holder: str, max_depth: int) -> None:
        request = turn_in(session_id, holder=holder, lease_ttl_ms=2 * STEP_MS, max_depth=max_depth)
        self.same(lambda store: store.begin_turn(self.tenant, request))

    @rule(target=responses, parent=st.none() | responses, ttl_ms=ttls)
    def commit(self, parent: Record | None, ttl_ms: int | None) -> Record:
        record = draft(parent, tag=SESSIONS[0])
        self.same(lambda store: store.commit_turn(self.tenant, TurnCommit(record, ttl_ms=ttl_ms)))
        self.known.append(record)
        return record

    @rule(target=responses, session_id=sessions, on_head=st.booleans(), ttl_ms=ttls)
    def whole_turn(self, session_id: str, on_head: bool, ttl_ms: int | None) -> Record:
        """Begins and commits a turn that continues the session's head, or no response."""
        state = self.run(self.model.describe_session(self.tenant, session_id))
        parent = next((known for known in self.known if on_head and known.id == state.head_id), None)
        record = draft(parent, session_id=session_id)
        lease = state.lease
        self.same(
            lambda store: store.begin_turn(self.tenant, turn_in(session_id, holder=lease.holder if lease else "a"))
        )
        fence = Fence(session_id, state.last_fence + (0 if lease else 1))
        self.same(lambda store: store.commit_turn(self.tenant, TurnCommit(record, fence, ttl_ms)))
        self.known.append(record)
        return record

    @rule(record=responses, fence=fences)
    def commit_again(self, record: Record, fence: Fence) -> None:
        repeated = replace(record, session_id=fence.session_id)
        self.same(lambda store: store.commit_turn(self.tenant, TurnCommit(repeated, fence)))

    # ---- Time ----

    @rule(steps=st.integers(1, 3))
    def elapse(self, steps: int) -> None:
        self.clock.advance(steps * STEP_MS / 1000)

    @invariant()
    def everything_reads_the_same(self) -> None:
        if hasattr(self, "subject"):
            self.same(*self.reads())

    def reads(self) -> Iterator[Ask]:
        """Yields the reads that are compared after every step."""
        for record in self.known[-4:]:
            yield lambda store, each=record: store.get(self.tenant, each.id)  # type: ignore[misc]
            yield lambda store, each=record: store.chain(self.tenant, each.id)  # type: ignore[misc]
        for session_id in SESSIONS:
            yield lambda store, each=session_id: store.describe_session(self.tenant, each)  # type: ignore[misc]


async def _outcomes(store: ResponseStore, asks: Sequence[Ask]) -> list[tuple[object, ...]]:
    return await asyncio.gather(*(_outcome(ask(store)) for ask in asks))


async def _outcome(answer: Awaitable[Any]) -> tuple[object, ...]:
    """The outcome of a call, errors included, in a form that can be compared."""
    try:
        value = await answer
    except AntiphonError as error:
        return ("error", type(error), error.message, error.field, error.facts)
    return ("answer", list(value) if isinstance(value, (list, tuple)) else value)


async def _enter(context: AbstractAsyncContextManager[ResponseStore]) -> ResponseStore:
    return await context.__aenter__()


async def _leave(context: AbstractAsyncContextManager[ResponseStore]) -> None:
    await context.__aexit__(None, None, None)
