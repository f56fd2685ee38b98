"""Idempotency keys: a repeated request has its effect once, and gets the first result."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from antiphon_core import limits
from antiphon_core.errors import (
    AlreadyExists,
    ChainTooLong,
    IdempotencyMismatch,
    InvalidRequest,
    PreviousResponseNotFound,
    PreviousResponseNotReady,
    ResponseNotFound,
    SessionLocked,
    StaleFence,
    StatusMismatch,
    VersionMismatch,
)
from antiphon_core.jsons import join_arrays
from antiphon_core.ports.store import Fence, Precondition, Record, Status, TurnCommit, TurnRequest, TurnStart
from antiphon_store.testing.races import race
from antiphon_store.testing.subject import Subject, content, draft, new_session_id

CLAIM_MS = 600_000  # the default of the setting turn_claim_s
ROUNDS = 10
FINGERPRINT = sha256(b"request").digest()
OTHER = sha256(b"another request").digest()


def keyed_request(record: Record, *, key: str = "k", fingerprint: bytes = FINGERPRINT, **options: Any) -> TurnRequest:
    """The request that begins the turn of `record`."""
    return TurnRequest(idempotency_key=key, fingerprint=fingerprint, response_id=record.id, **options)


async def begin(subject: Subject, request: TurnRequest) -> TurnStart:
    return await subject.store.begin_turn(subject.tenant, request)


async def commit(subject: Subject, record: Record, **options: Any) -> None:
    await subject.store.commit_turn(subject.tenant, TurnCommit(record, idempotency_key="k", **options))


def runs(start: TurnStart) -> bool:
    """Whether the caller has to run the turn."""
    return start.replay is None and start.running_response_id is None


class IdempotentTurnSuite:
    async def test_a_repeated_keyed_turn_gets_the_id_of_the_running_response(self, subject: Subject) -> None:
        (root,) = await subject.put_line(1)
        first, second = draft(root), draft(root)
        start = await begin(subject, keyed_request(first, previous_response_id=root.id))
        assert runs(start)
        assert start.history.head_id == root.id
        told = await subject.peer.begin_turn(subject.tenant, keyed_request(second, previous_response_id=root.id))
        assert (told.running_response_id, told.replay, told.history.depth) == (first.id, None, 0)
        assert runs(await begin(subject, keyed_request(first, previous_response_id=root.id)))

    async def test_a_committed_keyed_turn_is_replayed(self, subject: Subject) -> None:
        first, second = draft(), draft()
        await begin(subject, keyed_request(first))
        for _ in range(2):
            await commit(subject, first)
        for asked in (second, first):
            start = await begin(subject, keyed_request(asked))
            assert start.replay is not None
            assert content(start.replay) == content(first)
            assert start.lease is None

    async def test_a_turn_that_is_written_as_a_root_keeps_its_key(self, subject: Subject) -> None:
        (parent,) = await subject.put_line(1)
        first, second = draft(parent), draft()
        history = (await begin(subject, keyed_request(first, previous_response_id=parent.id))).history.items
        await subject.delete(parent)
        with pytest.raises(ResponseNotFound):
            await commit(subject, first)
        assert (await begin(subject, keyed_request(second))).running_response_id == first.id
        root = replace(first, parent_id=None, input_items=join_arrays([history, first.input_items]))
        await commit(subject, root)
        start = await begin(subject, keyed_request(second))
        assert start.replay is not None
        assert content(start.replay) == content(root)

    async def test_another_request_under_a_used_key_is_rejected(self, subject: Subject) -> None:
        first, second = draft(), draft()
        await begin(subject, keyed_request(first))
        for _ in ("running", "committed"):
            with pytest.raises(IdempotencyMismatch) as caught:
                await begin(subject, keyed_request(second, fingerprint=OTHER))
            assert caught.value.field == "idempotency_key"
            assert caught.value.code == "idempotency_key_reused"
            with pytest.raises(IdempotencyMismatch):
                await commit(subject, second)
            await commit(subject, first)
        assert runs(await begin(subject, keyed_request(second, key="another", fingerprint=OTHER)))

    async def test_a_key_is_remembered_for_a_day(self, subject: Subject) -> None:
        first, second = draft(), draft()
        await begin(subject, keyed_request(first))
        await commit(subject, first)
        await subject.elapse(limits.IDEMPOTENCY_MEMORY_MS - 1)
        assert (await begin(subject, keyed_request(second))).replay is not None
        await subject.elapse(1)
        assert runs(await begin(subject, keyed_request(second, fingerprint=OTHER)))

    async def test_the_key_of_a_crashed_owner_becomes_free(self, subject: Subject) -> None:
        first, second = draft(), draft()
        await begin(subject, keyed_request(first))
        await subject.elapse(CLAIM_MS - 1)
        assert (await begin(subject, keyed_request(second))).running_response_id == first.id
        await subject.elapse(1)
        assert runs(await begin(subject, keyed_request(second)))
        with pytest.raises(IdempotencyMismatch):
            await commit(subject, first)
        await commit(subject, second)
        start = await begin(subject, keyed_request(first))
        assert start.replay is not None
        assert start.replay.id == second.id

    async def test_a_repeated_claim_extends_the_idempotency_key(self, subject: Subject) -> None:
        first, second = draft(), draft()
        await begin(subject, keyed_request(first))
        for _ in range(2):
            await subject.elapse(CLAIM_MS - 1)
            assert runs(await begin(subject, keyed_request(first)))
        await subject.elapse(CLAIM_MS - 1)
        assert (await begin(subject, keyed_request(second))).running_response_id == first.id
        await commit(subject, first)
        assert (await begin(subject, keyed_request(first))).replay is not None

    async def test_a_commit_under_an_expired_claim_still_binds_its_key(self, subject: Subject) -> None:
        first = draft()
        await begin(subject, keyed_request(first))
        await subject.elapse(CLAIM_MS + 1)
        await commit(subject, first)
        assert (await begin(subject, keyed_request(draft()))).replay is not None
        with pytest.raises(IdempotencyMismatch):
            await begin(subject, keyed_request(draft(), fingerprint=OTHER))

    async def test_a_turn_behind_a_response_that_runs_claims_no_key(self, subject: Subject) -> None:
        running = draft(status=Status.IN_PROGRESS)
        await subject.put(running)
        first, second = draft(running), draft(running)
        with pytest.raises(PreviousResponseNotReady) as caught:
            await begin(subject, keyed_request(first, previous_response_id=running.id))
        assert caught.value.facts == {"id": running.id, "status": "in_progress"}
        assert runs(await begin(subject, keyed_request(second, fingerprint=OTHER)))
        await subject.put(replace(running, status=Status.CANCELLED), precondition=Precondition(version=1))
        start = await begin(subject, keyed_request(first, key="another", previous_response_id=running.id))
        assert (runs(start), start.history.head_id) == (True, running.id)

    async def test_an_abort_frees_the_key_of_its_own_response(self, subject: Subject) -> None:
        first, second = draft(), draft()
        await begin(subject, keyed_request(first))
        await subject.store.abort_turn(subject.tenant, None, idempotency_key="k", response_id=second.id)
        assert (await begin(subject, keyed_request(second))).running_response_id == first.id
        for _ in range(2):
            await subject.store.abort_turn(subject.tenant, None, idempotency_key="k", response_id=first.id)
        assert runs(await begin(subject, keyed_request(second, fingerprint=OTHER)))

    async def test_an_abort_after_the_commit_changes_nothing(self, subject: Subject) -> None:
        first = draft()
        await begin(subject, keyed_request(first))
        await commit(subject, first)
        await subject.store.abort_turn(subject.tenant, None, idempotency_key="k", response_id=first.id)
        assert (await begin(subject, keyed_request(draft()))).replay is not None

    async def test_an_abort_of_a_keyed_turn_releases_its_lease(self, subject: Subject) -> None:
        session_id = new_session_id()
        first = draft(session_id=session_id)
        start = await begin(subject, keyed_request(first, session_id=session_id, holder="a"))
        assert start.lease is not None
        await subject.store.abort_turn(subject.tenant, start.lease.fence, idempotency_key="k", response_id=first.id)
        assert runs(await begin(subject, keyed_request(draft(), session_id=session_id, holder="b")))

    async def test_a_rejected_begin_claims_no_key(self, subject: Subject) -> None:
        unknown, session_id = draft(), new_session_id()
        with pytest.raises(PreviousResponseNotFound):
            await begin(subject, keyed_request(draft(), previous_response_id=unknown.id))
        line = await subject.put_line(2)
        with pytest.raises(ChainTooLong):
            await begin(subject, keyed_request(draft(), previous_response_id=line[1].id, max_depth=1))
        await subject.begin_in(session_id, holder="other")
        with pytest.raises(SessionLocked):
            await begin(subject, keyed_request(draft(), session_id=session_id, holder="a"))
        assert runs(await begin(subject, keyed_request(draft(), fingerprint=OTHER)))

    async def test_a_turn_under_a_claimed_key_takes_no_lease(self, subject: Subject) -> None:
        first, session_id = draft(), new_session_id()
        await begin(subject, keyed_request(first))
        told = await begin(subject, keyed_request(draft(), session_id=session_id, holder="a"))
        assert (told.running_response_id, told.lease) == (first.id, None)
        assert (await subject.store.describe_session(subject.tenant, session_id)).last_fence == 0

    async def test_a_rejected_commit_stores_no_result_under_its_key(self, subject: Subject) -> None:
        session_id = new_session_id()
        record = draft(session_id=session_id)
        start = await begin(subject, keyed_request(record, session_id=session_id, holder="a"))
        assert start.lease is not None
        with pytest.raises(StaleFence):
            await commit(subject, record, fence=Fence(session_id, start.lease.fence.token + 1))
        told = await begin(subject, keyed_request(draft()))
        assert (told.replay, told.running_response_id) == (None, record.id)

    async def test_a_result_that_was_deleted_frees_the_key(self, subject: Subject) -> None:
        first = draft()
        await begin(subject, keyed_request(first))
        await commit(subject, first)
        await subject.delete(first)
        assert runs(await begin(subject, keyed_request(draft())))

    async def test_an_equal_key_of_another_tenant_is_independent(self, subject: Subject) -> None:
        await begin(subject, keyed_request(draft()))
        start = await subject.store.begin_turn(subject.tenant + "-other", keyed_request(draft(), fingerprint=OTHER))
        assert runs(start)

    async def test_one_of_many_concurrent_keyed_requests_runs(self, subject: Subject) -> None:
        for number in range(ROUNDS):
            requests = [keyed_request(draft(), key=f"k{number}") for _ in range(32)]
            starts, errors = await race(
                *(
                    (subject.store if n % 2 else subject.peer).begin_turn(subject.tenant, request)
                    for n, request in enumerate(requests)
                )
            )
            assert not errors
            (winner,) = [request for request, start in zip(requests, starts, strict=True) if runs(start)]
            told = {start.running_response_id for start in starts if not runs(start)}
            assert told == {winner.response_id}

    async def test_a_commit_completes_an_in_progress_record_once(self, subject: Subject) -> None:
        record = draft(status=Status.IN_PROGRESS)
        await subject.put(record)
        done = replace(record, status=Status.COMPLETED)
        open_only = Precondition(statuses=frozenset({Status.IN_PROGRESS}))
        stamp = await subject.store.commit_turn(subject.tenant, TurnCommit(done, precondition=open_only))
        assert stamp.version == 2
        assert await subject.store.commit_turn(subject.tenant, TurnCommit(done, precondition=open_only)) == stamp
        failed = replace(record, status=Status.FAILED)
        with pytest.raises(StatusMismatch):
            await subject.store.commit_turn(subject.tenant, TurnCommit(failed, precondition=open_only))
        assert (await subject.get(record)).status is Status.COMPLETED


class IdempotentWriteSuite:
    async def test_a_repeated_write_under_its_key_gets_the_first_stamp(self, subject: Subject) -> None:
        record = draft(status=Status.IN_PROGRESS)
        stamp = await subject.put(record, idempotency_key="k")
        await subject.put(replace(record, status=Status.COMPLETED), precondition=Precondition(version=1))
        await subject.elapse(5)
        assert await subject.put(record, idempotency_key="k") == stamp
        assert (await subject.get(record)).status is Status.COMPLETED
        await subject.delete(record)
        assert await subject.put(record, idempotency_key="k") == stamp

    async def test_other_content_under_the_same_key_is_refused(self, subject: Subject) -> None:
        record = draft()
        await subject.put(record, idempotency_key="k")
        for other in (replace(record, body=b"{}"), replace(record, session_id="s"), draft()):
            with pytest.raises(IdempotencyMismatch):
                await subject.put(other, idempotency_key="k")
        with pytest.raises(IdempotencyMismatch):
            await begin(subject, keyed_request(draft()))
        with pytest.raises(AlreadyExists):
            await subject.put(replace(record, body=b"{}"), idempotency_key="another")

    async def test_a_refused_write_leaves_its_key_free(self, subject: Subject) -> None:
        condition = Precondition(statuses=frozenset({Status.QUEUED}))
        with pytest.raises(StatusMismatch):
            await subject.put(draft(), precondition=condition, idempotency_key="k")
        assert (await subject.put(draft(), idempotency_key="k")).version == 1

    async def test_a_write_that_a_stored_record_excludes_is_refused_again_and_leaves_its_key_free(
        self, subject: Subject
    ) -> None:
        record = draft()
        await subject.put(record)
        other = replace(record, body=b"{}")
        for condition, error in ((Precondition(), AlreadyExists), (Precondition(version=7), VersionMismatch)):
            for _ in range(2):
                with pytest.raises(error):
                    await subject.put(other, precondition=condition, idempotency_key="k")
        assert content(await subject.get(record)) == content(record)
        assert (await subject.put(draft(), idempotency_key="k")).version == 1

    async def test_one_of_two_concurrent_writes_under_a_key_is_stored(self, subject: Subject) -> None:
        for number in range(ROUNDS):
            stamps, errors = await race(
                subject.store.put(subject.tenant, draft(), idempotency_key=f"k{number}"),
                subject.peer.put(subject.tenant, draft(), idempotency_key=f"k{number}"),
            )
            assert (len(stamps), [type(error) for error in errors]) == (1, [IdempotencyMismatch])


GOOD = draft()
BAD_CALLS: list[tuple[str, TurnRequest]] = [
    ("idempotency_key", keyed_request(GOOD, key="")),
    ("idempotency_key", keyed_request(GOOD, key="x" * (limits.IDEMPOTENCY_KEY_BYTES_MAX + 1))),
    ("idempotency_key", keyed_request(GOOD, key="\ud800")),
    ("response_id", replace(keyed_request(GOOD), response_id=None)),
    ("response_id", TurnRequest(response_id="resp_1")),
    ("fingerprint", keyed_request(GOOD, fingerprint=b"")),
    ("fingerprint", TurnRequest(fingerprint=b"short")),
]


class IdempotencyArgumentSuite:
    @pytest.mark.parametrize(("field", "request_"), BAD_CALLS)
    async def test_an_invalid_begin_is_rejected_with_its_field(
        self, subject: Subject, field: str, request_: TurnRequest
    ) -> None:
        with pytest.raises(InvalidRequest) as caught:
            await begin(subject, request_)
        assert caught.value.field == field

    async def test_a_write_with_an_invalid_key_is_rejected_with_its_field(self, subject: Subject) -> None:
        nameless = TurnCommit(GOOD, idempotency_key="")
        attempts: list[tuple[str, Awaitable[object]]] = [
            ("idempotency_key", subject.put(GOOD, idempotency_key="")),
            ("idempotency_key", subject.store.commit_turn(subject.tenant, nameless)),
            ("response_id", subject.store.abort_turn(subject.tenant, None, idempotency_key="k")),
        ]
        for field, attempt in attempts:
            with pytest.raises(InvalidRequest) as caught:
                await attempt
            assert caught.value.field == field
