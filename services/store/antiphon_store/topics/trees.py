"""Runs each operation in the partition of the tree that its ids belong to.

A session belongs to its home: the tree that the tag in its id names, or a hash of an id without a tag. One exception: a
fork may give a session without a tag a head in another tree. Then a POINTER row at its home names that tree (`tree`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from antiphon_core.errors import AlreadyExists
from antiphon_core.ids import session_tag, tree_tag
from antiphon_core.ports.checks import invalid
from antiphon_core.ports.store import Fence
from antiphon_store.decisions import lineage
from antiphon_store.rows.backend import RowBackend
from antiphon_store.rows.model import Condition, Kind, Partition, Payload, Row
from antiphon_store.rows.view import Decision, Finish, View, nothing

POINTERS_MAX = 10_000

_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")


class _Moved(Exception):
    """A session (first argument) is in another tree (second argument)."""


def tree_of(tenant: str, row_id: str) -> Partition:
    """The partition of a response, job, conversation or session, by its id."""
    return Partition(tenant, session_tag(tenant, row_id))


def session_of(fence: Fence | None, at: str = "") -> dict[str, str]:
    """Maps the session of a fence to the request's field that names it. `at` is the path of the fence's parent."""
    return {fence.session_id: f"{at}fence.session_id"} if fence is not None else {}


class Trees:
    """Runs decisions in the partition of a tree. `payload`: the payloads of rows that they use."""

    def __init__(self, rows: RowBackend, *, payload: Payload = Payload.ALL) -> None:
        self._rows = rows
        self._payload = payload
        self._pointers: dict[tuple[str, str], str] = {}  # a cache: (tenant, session) -> tree

    def run(self, partition: Partition, decision: Decision[_Answer], *, only_reads: bool = False) -> Awaitable[_Answer]:
        """Runs a decision in a partition."""
        return self._rows.decide(partition, decision, only_reads=only_reads, payload=self._payload)

    def of_response(
        self, tenant: str, response_id: str, decision: Decision[_Answer], *, only_reads: bool = False
    ) -> Awaitable[_Answer]:
        """Runs a decision in the tree of a response, job or conversation."""
        return self.run(tree_of(tenant, response_id), decision, only_reads=only_reads)

    def change(
        self,
        rule: Callable[Concatenate[View, str, _Parameters], Finish[_Answer]],
        tenant: str,
        row_id: str,
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> Awaitable[_Answer]:
        """Runs a rule that changes a response, job or conversation, in its tree."""
        return self.run(tree_of(tenant, row_id), lambda view: rule(view, row_id, *args, **kwargs))

    async def of_session(
        self, tenant: str, session_id: str, decision: Decision[_Answer], *, only_reads: bool = False
    ) -> _Answer:
        """Runs a decision in the tree of a session."""
        while True:
            partition, at_home = self._place(tenant, session_id), self._at_home(tenant, [session_id], decision)
            try:
                return await self.run(partition, at_home, only_reads=only_reads)
            except _Moved as moved:
                self._remember(tenant, moved)

    async def of_record(
        self, tenant: str, response_id: str, sessions: Mapping[str, str], decision: Decision[_Answer]
    ) -> _Answer:
        """Runs a decision in the tree of a response. `sessions` maps the sessions that it uses to the fields that name
        them. InvalidRequest: one of these sessions is in another tree."""
        partition = tree_of(tenant, response_id)
        while True:
            for session_id, field in sessions.items():
                if self._place(tenant, session_id) != partition:
                    place = await self.locate(tenant, session_id)
                    if place != partition:
                        needs = f"the ids of its responses must begin with 'resp_{place.tree}'"
                        raise invalid(field, f"Session '{session_id}' is in another tree: {needs}.")
            try:
                at_home = self._at_home(tenant, sessions, decision)
                return await self._rows.decide(partition, at_home, payload=self._payload)
            except _Moved as moved:
                self._remember(tenant, moved)

    async def at_home(self, tenant: str, session_id: str, decision: Decision[_Answer]) -> _Answer:
        """Runs a decision at the home of a session. AlreadyExists: a pointer there names another tree."""
        try:
            return await self.run(tree_of(tenant, session_id), _unless_moved(session_id, decision))
        except _Moved:
            raise AlreadyExists.of(session_id) from None

    async def look_up(self, tenant: str, response_id: str) -> tuple[int, Row | None]:
        """Reads the backend's time and the node of a response, which may be deleted or expired."""
        look = partial(lineage.rows_of, response_ids=[response_id])
        now_ms, (row,) = await self.of_response(tenant, response_id, look, only_reads=True)
        return now_ms, row

    async def locate(self, tenant: str, session_id: str) -> Partition:
        """Finds the partition of a session."""
        home = tree_of(tenant, session_id)
        try:
            if tree_tag(session_id) is None:
                await self.run(home, _unless_moved(session_id, lambda _view: nothing), only_reads=True)
        except _Moved as moved:
            self._remember(tenant, moved)
        return self._place(tenant, session_id)

    async def point(self, tenant: str, session_id: str, tree: str, require_free: Callable[[View], None]) -> None:
        """Writes the pointer of a session to another tree. `require_free` raises if the session is in use at home.

        AlreadyExists: the session has a pointer to a third tree. Pointers never change, because processes cache
        them."""
        home = tree_of(tenant, session_id)
        if tree == self._pointers.get((tenant, session_id)):
            return

        def name_tree(view: View) -> Finish[None]:
            row = view.need(Kind.POINTER, session_id)
            if row is not None and row.fields["tree"] != tree:
                raise AlreadyExists.of(session_id)
            if row is None and tree != home.tree:
                require_free(view)
                view.put(Kind.POINTER, session_id, {"tree": tree})
            return nothing

        await self.run(home, name_tree)
        await self.locate(tenant, session_id)

    def _at_home(self, tenant: str, session_ids: Iterable[str], decision: Decision[_Answer]) -> Decision[_Answer]:
        """Makes a decision in the tree of sessions raise _Moved if one of them has a pointer that is not cached. A
        session whose pointer is cached is not at home."""
        for each in session_ids:
            if tree_tag(each) is None and (tenant, each) not in self._pointers:
                decision = _unless_moved(each, decision)
        return decision

    def _place(self, tenant: str, session_id: str) -> Partition:
        """The partition of a session by the cached pointers, which may lack the session's pointer."""
        tree = self._pointers.get((tenant, session_id))
        return Partition(tenant, session_tag(tenant, session_id) if tree is None else tree)

    def _remember(self, tenant: str, moved: _Moved) -> None:
        if len(self._pointers) >= POINTERS_MAX:
            self._pointers.clear()
        session_id, tree = moved.args
        self._pointers[tenant, session_id] = tree


def _unless_moved(session_id: str, decision: Decision[_Answer]) -> Decision[_Answer]:
    """Makes a decision at the home of a session raise _Moved if a pointer there names another tree."""

    def decide_at_home(view: View) -> Finish[_Answer]:
        if not view.test(Kind.POINTER, session_id, Condition.ABSENT):
            row = view.need(Kind.POINTER, session_id)
            if row is not None:
                raise _Moved(session_id, row.fields["tree"])
        return decision(view)

    return decide_at_home
