"""The state machine of `model` with the operations of `LineageStore`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from antiphon_core.jsons import loads
from antiphon_core.ports.lineage import ForkSource, LineageStore, Node
from antiphon_core.ports.store import Order, Precondition, Record, Status
from antiphon_store.testing.model import SESSIONS, Ask, OpenStore, StoreMachine, preconditions, sessions, statuses
from antiphon_store.testing.subject import new_session_id

targets = st.sampled_from((*SESSIONS, new_session_id(beside=SESSIONS[0]), "a-session-of-any-name"))


def machine(open_store: OpenStore) -> type[RuleBasedStateMachine]:
    """Makes the state machine for one implementation; pytest runs its `TestCase`."""
    name = f"{LineageMachine.__name__}_{getattr(open_store, '__name__', 'store')}"
    made: type[LineageMachine] = type(name, (LineageMachine,), {"open_store": staticmethod(open_store)})
    made.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None, database=None)
    return made


class LineageMachine(StoreMachine):
    def alike(self, ask: Callable[[LineageStore], Awaitable[Any]]) -> None:
        self.same(lambda store: ask(cast("LineageStore", store)))

    @rule(source=sessions, into=targets)
    def fork_session(self, source: str, into: str) -> None:
        self.alike(lambda store: store.fork(self.tenant, ForkSource(source), new_session_id=into))

    @rule(record=StoreMachine.responses, into=targets, source=st.none() | sessions)
    def fork_response(self, record: Record, into: str, source: str | None) -> None:
        self.alike(lambda store: store.fork(self.tenant, ForkSource(source, record.id), new_session_id=into))

    @rule(record=StoreMachine.responses, status=statuses, condition=st.just(Precondition()) | preconditions)
    def update_status(self, record: Record, status: Status, condition: Precondition) -> None:
        self.alike(lambda store: store.update_status(self.tenant, record.id, status, precondition=condition))

    @rule(record=StoreMachine.responses, from_root=st.booleans(), size=st.integers(1, 3))
    def page_through_a_tree(self, record: Record, from_root: bool, size: int) -> None:
        async def walk(store: LineageStore) -> list[Node]:
            page = await store.tree(self.tenant, record.id, from_root=from_root, max_nodes=size)
            found = list(page.nodes)
            while page.next_cursor is not None:
                page = await store.tree(
                    self.tenant, record.id, from_root=from_root, max_nodes=size, cursor=page.next_cursor
                )
                found += page.nodes
            return found

        self.alike(walk)

    @rule(session_id=targets, order=st.sampled_from(Order), limit=st.integers(1, 3))
    def list_a_session(self, session_id: str, order: Order, limit: int) -> None:
        self.alike(lambda store: store.list_responses(self.tenant, session_id, order=order, limit=limit))

    def reads(self) -> Iterator[Ask]:
        yield from super().reads()
        yield from cast("Iterator[Ask]", self.lineage_reads())

    def lineage_reads(self) -> Iterator[Callable[[LineageStore], Awaitable[Any]]]:
        for record in self.known[-4:]:
            yield lambda store, each=record: store.children(self.tenant, each.id)  # type: ignore[misc]
            yield lambda store, each=record: store.siblings(self.tenant, each.id, limit=2)  # type: ignore[misc]
            yield lambda store, each=record: store.leaves(self.tenant, each.id)  # type: ignore[misc]
        asked = self.known[-6:]
        item_ids = [item["id"] for record in asked for item in loads(record.output_items)]
        if asked:
            yield lambda store: store.batch_get(self.tenant, [record.id for record in asked])
        if item_ids:
            yield lambda store: store.resolve_items(self.tenant, item_ids)
