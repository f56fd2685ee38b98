"""In which partition an operation runs: that of the tree that its ids belong to.

A session's tree is the tag in its id, or follows from its name. One exception: a fork may give a session of any name a
head in another tree. Then a row POINTER at the session's home says in which (`tree`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TypeVar

from antiphon_core.errors import AlreadyExists, InvalidRequest
from antiphon_core.ids import session_tag, tree_tag
from antiphon_store.decisions import lineage
from antiphon_store.rows.decision import Decision, Finish
from antiphon_store.rows.model import Condition, Kind, Partition, Row
from antiphon_store.rows.runner import DecisionRunner
from antiphon_store.rows.view import View

POINTERS_MAX = 10_000

_Answer = TypeVar("_Answer")


class _Moved(Exception):
    """The session is in another tree."""

    def __init__(self, session_id: str, tree: str) -> None:
        super().__init__(session_id, tree)
        self.session_id = session_id
        self.tree = tree


def tree_of(tenant: str, tagged_id: str) -> Partition:
    """The tree of a response, job or conversation."""
    return Partition(tenant, tree_tag(tagged_id) or tagged_id)


class Trees:
    """Runs decisions in the partition of a tree."""

    def __init__(self, runner: DecisionRunner) -> None:
        self._runner = runner
        self._pointers: dict[tuple[str, str], str] = {}  # seen so far: (tenant, session) -> tree

    def of_response(
        self, tenant: str, response_id: str, decision: Decision[_Answer], *, only_reads: bool = False
    ) -> Awaitable[_Answer]:
        """Runs it in the tree of a response or conversation."""
        return self._runner.run(tree_of(tenant, response_id), decision, only_reads=only_reads)

    async def of_session(
        self, tenant: str, session_id: str, decision: Decision[_Answer], *, only_reads: bool = False
    ) -> _Answer:
        """Runs it in the tree of a session."""
        while True:
            partition = Partition(tenant, self._tree_of(tenant, session_id))
            try:
                at_home = self._at_home(partition, [session_id], decision)
                return await self._runner.run(partition, at_home, only_reads=only_reads)
            except _Moved as moved:
                self._remember(tenant, moved)

    async def look_up(self, tenant: str, response_id: str) -> tuple[int, Row | None]:
        """The time, and the node of a response, readable or not."""
        look = partial(lineage.rows_of, response_ids=[response_id])
        now_ms, (row,) = await self.of_response(tenant, response_id, look, only_reads=True)
        return now_ms, row

    async def locate(self, tenant: str, session_id: str) -> Partition:
        """Where a session is."""
        await self._find(tenant, session_id)
        return Partition(tenant, self._tree_of(tenant, session_id))

    async def of_record(
        self, tenant: str, response_id: str, sessions: Iterable[tuple[str, str]], decision: Decision[_Answer]
    ) -> _Answer:
        """Runs it in the tree of a response together with sessions, of which each comes with the field that names it.
        InvalidRequest: they are not of one tree."""
        partition = tree_of(tenant, response_id)
        named = dict(sessions)
        while True:
            for session_id, field in named.items():
                if self._tree_of(tenant, session_id) != partition.tree:
                    await self._find(tenant, session_id)
                    if self._tree_of(tenant, session_id) != partition.tree:
                        raise _apart(session_id, self._tree_of(tenant, session_id), field)
            try:
                return await self._runner.run(partition, self._at_home(partition, named, decision))
            except _Moved as moved:
                self._remember(tenant, moved)

    async def at_home(self, tenant: str, session_id: str, decision: Decision[_Answer]) -> _Answer:
        """Runs it in the tree that a session's name says. AlreadyExists: the session was sent to another tree."""
        partition = Partition(tenant, session_tag(tenant, session_id))
        try:
            return await self._runner.run(partition, self._at_home(partition, [session_id], decision))
        except _Moved:
            raise AlreadyExists.of(session_id) from None

    async def point(self, tenant: str, session_id: str, tree: str, require_free: Callable[[View], None]) -> None:
        """Sends a session of any name to another tree, if it is not in use at home. `require_free` raises if it is.

        AlreadyExists: it was sent to a third tree before, where it stays for ever, since pointers are remembered."""
        home = session_tag(tenant, session_id)
        if tree == self._pointers.get((tenant, session_id)):
            return

        def decide(view: View) -> Finish[None]:
            row = view.need(Kind.POINTER, session_id)
            if row is not None and row.fields["tree"] != tree:
                raise AlreadyExists.of(session_id)
            if row is None and tree != home:
                require_free(view)
                view.put(Kind.POINTER, session_id, {"tree": tree})
            return lambda _answers: None

        await self._runner.run(Partition(tenant, home), decide)
        await self._find(tenant, session_id)

    def _tree_of(self, tenant: str, session_id: str) -> str:
        return self._pointers.get((tenant, session_id)) or session_tag(tenant, session_id)

    def _at_home(
        self, partition: Partition, session_ids: Iterable[str], decision: Decision[_Answer]
    ) -> Decision[_Answer]:
        """The decision, and that the sessions without a tag in their id were not sent elsewhere."""
        tenant, tree = partition
        nameless = [each for each in session_ids if tree_tag(each) is None and session_tag(tenant, each) == tree]
        return partial(_decide_at_home, nameless, decision) if nameless else decision

    async def _find(self, tenant: str, session_id: str) -> None:
        if tree_tag(session_id) is not None:
            return
        home = Partition(tenant, session_tag(tenant, session_id))
        try:
            await self._runner.run(home, partial(_look, session_id), only_reads=True)
        except _Moved as moved:
            self._remember(tenant, moved)

    def _remember(self, tenant: str, moved: _Moved) -> None:
        if len(self._pointers) >= POINTERS_MAX:
            self._pointers.clear()
        self._pointers[tenant, moved.session_id] = moved.tree


def _decide_at_home(session_ids: list[str], decision: Decision[_Answer], view: View) -> Finish[_Answer]:
    for each in session_ids:
        _require_home(view, each)
    return decision(view)


def _require_home(view: View, session_id: str) -> None:
    if not view.test(Kind.POINTER, session_id, Condition.ABSENT):
        row = view.need(Kind.POINTER, session_id)
        if row is not None:
            raise _Moved(session_id, row.fields["tree"])


def _look(session_id: str, view: View) -> Finish[None]:
    view.need(Kind.POINTER, session_id)
    _require_home(view, session_id)
    return lambda _answers: None


def _apart(session_id: str, tree: str, field: str) -> InvalidRequest:
    return InvalidRequest(
        f"Session '{session_id}' and its responses must be of one tree: their ids begin with 'resp_{tree}'.",
        field=field,
        code="invalid_value",
    )
