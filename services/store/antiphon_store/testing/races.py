"""Races of two clients that write concurrently, in many rounds: exactly one of two conflicting writes wins, and no
other write is lost."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

from antiphon_core.errors import AlreadyExists, AntiphonError, SessionLocked, StaleFence, VersionMismatch
from antiphon_core.ports.store import Precondition, Stamp, Status, TurnCommit, TurnStart
from antiphon_store.testing.lineage import join_history
from antiphon_store.testing.subject import Subject, content, draft, new_session_id, turn_in

_Answer = TypeVar("_Answer")


async def race(*attempts: Awaitable[_Answer]) -> tuple[list[_Answer], list[AntiphonError]]:
    """Runs the attempts concurrently. Returns the answers of the winners, and the errors of the losers."""
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    errors = [outcome for outcome in outcomes if isinstance(outcome, AntiphonError)]
    answers = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert len(errors) + len(answers) == len(outcomes), outcomes
    return answers, errors


def only(values: Sequence[_Answer]) -> _Answer:
    assert len(values) == 1, values
    return values[0]


class RaceSuite:
    rounds: ClassVar[int] = 12

    async def test_one_of_two_concurrent_records_with_one_id_is_stored(self, subject: Subject) -> None:
        for _ in range(self.rounds):
            one = draft(text="one")
            two = replace(one, body=b'{"two":2}')
            stamps, errors = await race(subject.store.put(subject.tenant, one), subject.peer.put(subject.tenant, two))
            assert only(stamps).version == 1
            assert isinstance(only(errors), AlreadyExists)

    async def test_two_equal_records_are_stored_once(self, subject: Subject) -> None:
        for _ in range(self.rounds):
            record = draft()
            stamps, errors = await race(
                subject.store.put(subject.tenant, record), subject.peer.put(subject.tenant, record)
            )
            assert not errors
            assert stamps[0] == stamps[1]

    async def test_one_of_two_concurrent_replacements_of_a_version_is_stored(self, subject: Subject) -> None:
        record = draft(status=Status.IN_PROGRESS)
        await subject.put(record)
        for version in range(1, self.rounds):
            candidates = [replace(record, body=b'{"by":"%d","at":%d}' % (who, version)) for who in (1, 2)]
            condition = Precondition(version=version)
            stamps, errors = await race(
                subject.store.put(subject.tenant, candidates[0], precondition=condition),
                subject.peer.put(subject.tenant, candidates[1], precondition=condition),
            )
            assert only(stamps).version == version + 1
            assert isinstance(only(errors), VersionMismatch)
            assert content(await subject.get(record)) in [content(candidate) for candidate in candidates]

    async def test_one_of_two_holders_gets_the_lease(self, subject: Subject) -> None:
        session_id = new_session_id()
        for number in range(self.rounds):
            leases, errors = await race(
                subject.store.acquire_session(subject.tenant, session_id, holder="a"),
                subject.peer.acquire_session(subject.tenant, session_id, holder="b"),
            )
            assert only(leases).fence.token == number + 1
            assert isinstance(only(errors), SessionLocked)
            await subject.store.release_session(subject.tenant, only(leases).fence)

    async def test_one_of_two_concurrent_turns_in_a_session_begins(self, subject: Subject) -> None:
        session_id = new_session_id()
        head = None
        for _ in range(self.rounds):
            starts, errors = await race(
                subject.store.begin_turn(subject.tenant, turn_in(session_id, holder="a")),
                subject.peer.begin_turn(subject.tenant, turn_in(session_id, holder="b")),
            )
            start: TurnStart = only(starts)
            assert isinstance(only(errors), SessionLocked)
            assert start.history.head_id == (head.id if head else None)
            assert start.lease is not None
            head = draft(head, session_id=session_id)
            await subject.peer.commit_turn(subject.tenant, TurnCommit(head, start.lease.fence))

    async def test_one_of_two_commits_under_one_fence_wins(self, subject: Subject) -> None:
        session_id = new_session_id()
        for _ in range(self.rounds):
            _history, lease = await subject.begin_in(session_id)
            one, two = draft(session_id=session_id), draft(session_id=session_id)
            stamps, errors = await race(
                subject.store.commit_turn(subject.tenant, TurnCommit(one, lease.fence)),
                subject.peer.commit_turn(subject.tenant, TurnCommit(two, lease.fence)),
            )
            assert isinstance(only(stamps), Stamp)
            assert isinstance(only(errors), StaleFence)

    async def test_concurrent_children_of_one_parent_are_all_kept(self, subject: Subject) -> None:
        trunk = await subject.put_line(2)
        for parent in trunk:
            children = [draft(parent) for _ in range(16)]
            stamps, errors = await race(
                *(
                    (subject.store if number % 2 else subject.peer).put(subject.tenant, child)
                    for number, child in enumerate(children)
                )
            )
            assert not errors
            assert len(stamps) == 16
            line = trunk[: trunk.index(parent) + 1]
            for child in children:
                assert await subject.begin_after(child) == join_history([*line, child])

    async def test_a_child_racing_its_parents_deletion_is_rejected_or_readable(self, subject: Subject) -> None:
        for _ in range(self.rounds):
            (root,) = await subject.put_line(1)
            child = draft(root)
            _answers, errors = await race(
                subject.store.put(subject.tenant, child), subject.peer.delete(subject.tenant, root.id)
            )
            if errors:  # the parent went first
                assert only(errors).facts["id"] == root.id
            else:
                assert await subject.begin_after(child) == join_history([root, child])
