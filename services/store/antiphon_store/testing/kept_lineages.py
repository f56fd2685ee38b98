"""Lineages of responses: a turn writes one beside its record, and later turns read those of their history."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import InvalidRequest, ResponseNotFound, TooLarge
from antiphon_core.limits import LINEAGE_BYTES_MAX
from antiphon_core.ports.store import (
    LINEAGE_KEY_BYTES,
    History,
    Precondition,
    Record,
    Status,
    TurnCommit,
    TurnRequest,
    TurnStart,
)
from antiphon_store.testing.idempotency import keyed_request
from antiphon_store.testing.lineage import join_history
from antiphon_store.testing.subject import Subject, draft, new_session_id


class KeptLineageSuite:
    async def put_lines(self, subject: Subject, *lineages: bytes) -> list[Record]:
        """Commits a chain of responses with these lineages."""
        line: list[Record] = []
        for each in lineages:
            line.append(draft(line[-1] if line else None))
            await subject.store.commit_turn(subject.tenant, TurnCommit(line[-1], lineage=each))
        return line

    async def lineages_of(self, subject: Subject, record: Record) -> tuple[bytes, ...]:
        request = TurnRequest(previous_response_id=record.id, wants_lineage=True)
        return (await subject.peer.begin_turn(subject.tenant, request)).history.lineages

    async def test_a_turn_reads_the_lineages_of_its_history(self, subject: Subject) -> None:
        line = await self.put_lines(subject, b"root", b"", b"\x00\xff")
        request = TurnRequest(previous_response_id=line[-1].id, wants_lineage=True)
        history = (await subject.store.begin_turn(subject.tenant, request)).history
        assert history.lineages == (b"root", b"", b"\x00\xff")
        assert history.items == join_history(line)
        branch = draft(line[0])
        await subject.store.commit_turn(subject.tenant, TurnCommit(branch, lineage=b"branch"))
        assert await self.lineages_of(subject, branch) == (b"root", b"branch")

    async def test_a_long_history_has_its_first_lineages_and_the_last_one(self, subject: Subject) -> None:
        """A turn takes no others along, so a backend may leave them out."""
        lineages = [bytes([number]) * 1_000 for number in range(140)]
        line = await self.put_lines(subject, *lineages)
        found = await self.lineages_of(subject, line[-1])
        first = LINEAGE_BYTES_MAX // 1_000 + 1
        assert list(found[:first]) == lineages[:first]
        assert found[-1] == lineages[-1]
        assert all(each in (b"", whole) for each, whole in zip(found, lineages, strict=True))

    async def test_lineages_come_only_when_they_are_requested(self, subject: Subject) -> None:
        line = await self.put_lines(subject, b"root", b"child")
        start = await subject.store.begin_turn(subject.tenant, TurnRequest(previous_response_id=line[-1].id))
        assert start.history.lineages == ()
        assert start.history.items == join_history(line)
        assert [each.id for each in await subject.store.chain(subject.tenant, line[-1].id)] == [
            each.id for each in line
        ]

    async def test_a_history_without_lineages_has_none(self, subject: Subject) -> None:
        line = await subject.put_line(2)
        assert await self.lineages_of(subject, line[-1]) == ()

    async def test_a_session_has_the_lineages_of_its_turns(self, subject: Subject) -> None:
        session_id = new_session_id()
        first = await subject.commit_in(session_id, lineage=b"first")
        await subject.commit_in(session_id, first, lineage=b"second")
        history, _ = await subject.begin_in(session_id, wants_lineage=True)
        assert history.lineages == (b"first", b"second")

    async def test_the_end_of_a_response_replaces_its_lineage(self, subject: Subject) -> None:
        running = draft(status=Status.IN_PROGRESS, output_items=b"[]")
        await subject.put(running)
        ended = replace(running, status=Status.COMPLETED, output_items=draft().output_items)
        commit = TurnCommit(ended, precondition=Precondition(version=1), lineage=b"ended")
        for _ in range(2):  # the second is a retry
            await subject.store.commit_turn(subject.tenant, commit)
            assert await self.lineages_of(subject, ended) == (b"ended",)

    async def test_a_replaced_response_loses_its_lineage(self, subject: Subject) -> None:
        """The ids of a lineage are the text of an output."""
        (record,) = await self.put_lines(subject, b"secret")
        await subject.put(replace(record, output_items=b"[]"), precondition=Precondition(version=1))
        assert await self.lineages_of(subject, record) == ()

    async def test_a_lineage_over_the_limit_is_rejected(self, subject: Subject) -> None:
        with pytest.raises(TooLarge, match="lineage"):
            await self.put_lines(subject, b"x" * (LINEAGE_BYTES_MAX + 1))

    async def found_under(self, subject: Subject, *keys: bytes) -> bytes:
        return (await subject.peer.begin_turn(subject.tenant, TurnRequest(lineage_keys=keys))).found_lineage

    async def commit_under(self, subject: Subject, key: bytes, lineage: bytes) -> Record:
        record = draft()
        await subject.store.commit_turn(subject.tenant, TurnCommit(record, lineage=lineage, lineage_key=key))
        return record

    async def test_a_turn_without_a_predecessor_finds_the_lineage_of_the_first_key(self, subject: Subject) -> None:
        first, second, third, fourth = (bytes([number]) * LINEAGE_KEY_BYTES for number in range(4))
        await self.commit_under(subject, first, b"first")
        await self.commit_under(subject, second, b"second")
        assert await self.found_under(subject, first, second) == b"first"
        assert await self.found_under(subject, third, fourth, second, first) == b"second"
        assert await self.found_under(subject, third, fourth) == b""
        await subject.elapse(5)  # entries of one millisecond have no order
        await self.commit_under(subject, first, b"newer")
        assert await self.found_under(subject, first) == b"newer"

    async def test_a_lineage_is_found_only_by_its_tenant(self, subject: Subject) -> None:
        key = b"k" * LINEAGE_KEY_BYTES
        await self.commit_under(subject, key, b"lineage")
        other = await subject.peer.begin_turn(f"{subject.tenant}-2", TurnRequest(lineage_keys=(key,)))
        assert other.found_lineage == b""

    async def test_lineage_of_one_response_is_read_alone(self, subject: Subject) -> None:
        line = await self.put_lines(subject, b"one", b"", b"three")
        found = [
            await subject.peer.begin_turn(subject.tenant, TurnRequest(lineage_of=each.id, max_depth=1)) for each in line
        ]
        assert found == [TurnStart(History(), found_lineage=each) for each in (b"one", b"", b"three")]
        await subject.store.delete(subject.tenant, line[-1].id)
        with pytest.raises(ResponseNotFound):
            await subject.store.begin_turn(subject.tenant, TurnRequest(lineage_of=line[-1].id))

    async def test_an_older_lineage_is_found_behind_a_deleted_one(self, subject: Subject) -> None:
        key = b"k" * LINEAGE_KEY_BYTES
        await self.commit_under(subject, key, b"older")
        await subject.elapse(5)  # entries of one millisecond have no order
        newer = await self.commit_under(subject, key, b"newer")
        await subject.store.delete(subject.tenant, newer.id)
        assert await self.found_under(subject, key) == b"older"

    async def test_a_found_lineage_changes_neither_history_nor_lease(self, subject: Subject) -> None:
        key = b"k" * LINEAGE_KEY_BYTES
        await self.commit_under(subject, key, b"lineage")
        start = await subject.store.begin_turn(subject.tenant, TurnRequest(lineage_keys=(key,)))
        assert start == TurnStart(History(), found_lineage=b"lineage")

    async def test_a_deleted_response_has_no_lineage_to_find(self, subject: Subject) -> None:
        key = b"k" * LINEAGE_KEY_BYTES
        record = await self.commit_under(subject, key, b"lineage")
        await subject.store.delete(subject.tenant, record.id)
        assert await self.found_under(subject, key) == b""

    async def test_a_replaced_response_has_its_lineage_under_the_new_key(self, subject: Subject) -> None:
        former, key = (bytes([number]) * LINEAGE_KEY_BYTES for number in range(2))
        record = await self.commit_under(subject, former, b"former")
        write = TurnCommit(
            replace(record, output_items=b"[]"),
            precondition=Precondition(version=1),
            lineage=b"newer",
            lineage_key=key,
        )
        await subject.store.commit_turn(subject.tenant, write)
        assert (await self.found_under(subject, former), await self.found_under(subject, key)) == (b"", b"newer")

    @pytest.mark.parametrize(
        ("request_", "field"),
        [
            (TurnRequest(lineage_keys=(b"short",)), "lineage_keys"),
            (TurnRequest(lineage_keys=(b"k" * LINEAGE_KEY_BYTES,) * 5), "lineage_keys"),
            (TurnRequest(previous_response_id=draft().id, lineage_keys=(b"k" * LINEAGE_KEY_BYTES,)), "lineage_keys"),
            (replace(keyed_request(draft()), lineage_keys=(b"k" * LINEAGE_KEY_BYTES,)), "lineage_keys"),
            (TurnRequest(previous_response_id=draft().id, lineage_of=draft().id), "lineage_of"),
        ],
    )
    async def test_wrong_lineage_keys_are_rejected(self, subject: Subject, request_: TurnRequest, field: str) -> None:
        with pytest.raises(InvalidRequest) as caught:
            await subject.store.begin_turn(subject.tenant, request_)
        assert caught.value.field == field
