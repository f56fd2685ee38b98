"""Races of writes to one tree: no child is lost or duplicated, and one of two conflicting writes wins."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
from typing import ClassVar

from antiphon_core.errors import AlreadyExists, StatusMismatch, VersionMismatch
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import Precondition, Record, Status
from antiphon_store.testing.lineage_subject import lineage, peer_lineage
from antiphon_store.testing.races import only, race
from antiphon_store.testing.subject import Subject, draft, new_session_id


class LineageRaceSuite:
    rounds: ClassVar[int] = 12
    parents: ClassVar[int] = 3
    children: ClassVar[int] = 32  # of each parent

    async def test_concurrent_children_are_all_kept_once(self, subject: Subject) -> None:
        trunk = await subject.put_line(self.parents)
        born: dict[str, set[str]] = {}
        for parent, next_one in zip(trunk, [*trunk[1:], None], strict=True):
            children = [draft(parent) for _ in range(self.children)]
            await asyncio.gather(*(self.put_twice(subject, child) for child in children))
            born[parent.id] = {child.id for child in children} | ({next_one.id} if next_one else set())
        for parent in trunk:
            page = await lineage(subject).children(subject.tenant, parent.id)
            found = [node.id for node in page.nodes]
            assert len(found) == len(set(found))
            assert set(found) == born[parent.id]
        page = await lineage(subject).tree(subject.tenant, trunk[0].id)
        assert len(page.nodes) == self.parents * (self.children + 1)

    async def put_twice(self, subject: Subject, child: Record) -> None:
        """Puts a child from two clients at once, as a retry does."""
        stamps, errors = await race(subject.store.put(subject.tenant, child), subject.peer.put(subject.tenant, child))
        assert not errors
        assert stamps[0] == stamps[1]

    async def test_one_of_two_forks_gets_the_session(self, subject: Subject) -> None:
        line = await subject.put_line(2)
        for _ in range(self.rounds):
            target = new_session_id(line[0].id)
            forks, errors = await race(
                lineage(subject).fork(subject.tenant, ForkSource(None, line[0].id), new_session_id=target),
                peer_lineage(subject).fork(subject.tenant, ForkSource(None, line[1].id), new_session_id=target),
            )
            assert isinstance(only(errors), AlreadyExists)
            session = await subject.store.describe_session(subject.tenant, target)
            assert session.head_id == only(forks).head_id

    async def test_two_equal_concurrent_forks_get_one_result(self, subject: Subject) -> None:
        (root,) = await subject.put_line(1)
        for _ in range(self.rounds):
            target = new_session_id(root.id)
            forks, errors = await race(
                lineage(subject).fork(subject.tenant, ForkSource(None, root.id), new_session_id=target),
                peer_lineage(subject).fork(subject.tenant, ForkSource(None, root.id), new_session_id=target),
            )
            assert not errors
            assert forks[0] == forks[1]

    async def test_a_fork_racing_the_deletion_of_its_head_is_whole_or_rejected(self, subject: Subject) -> None:
        for _ in range(self.rounds):
            (root,) = await subject.put_line(1)
            target = new_session_id(root.id)
            _answers, errors = await race(
                lineage(subject).fork(subject.tenant, ForkSource(None, root.id), new_session_id=target),
                subject.peer.delete(subject.tenant, root.id),
            )
            session = await subject.store.describe_session(subject.tenant, target)
            assert session.head_id == (None if errors else root.id)

    async def test_one_of_two_concurrent_status_updates_wins(self, subject: Subject) -> None:
        for _ in range(self.rounds):
            record = draft(status=Status.IN_PROGRESS)
            await subject.put(record)
            for condition, error in (
                (Precondition(statuses=frozenset({Status.IN_PROGRESS})), StatusMismatch),
                (Precondition(version=2), VersionMismatch),
            ):
                stamps, errors = await race(
                    lineage(subject).update_status(subject.tenant, record.id, Status.COMPLETED, precondition=condition),
                    peer_lineage(subject).update_status(
                        subject.tenant, record.id, Status.CANCELLED, precondition=condition
                    ),
                )
                assert only(stamps).version > 1
                assert isinstance(only(errors), error)
