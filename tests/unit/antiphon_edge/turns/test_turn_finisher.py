from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from threading import get_ident
from typing import Any

import pytest

from antiphon_core import events, response
from antiphon_core.errors import (
    AntiphonError,
    ContextLengthExceeded,
    EngineFault,
    EngineTimeout,
    EngineUnavailable,
    InternalError,
    InvalidRequest,
    LimitExceeded,
    ResponseNotFound,
    StaleFence,
    StoreUnavailable,
    Timeout,
    TooLarge,
    TranslatorUnavailable,
)
from antiphon_core.fold import Fold, fold
from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.jsons import Object, loads
from antiphon_core.offload import INLINE_BYTES_MAX
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import Job
from antiphon_core.ports.store import (
    NO_PRECONDITION,
    UNFINISHED,
    Fence,
    Lease,
    LogFrames,
    Precondition,
    Stamp,
    Status,
    TurnCommit,
)
from antiphon_core.ports.translator import Batch, Final, Turn
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.leases import JobLease
from antiphon_edge.turns.turn_finisher import (
    TurnFinisher,
    cancellation,
    commit_or_as_root,
    failed_before_output,
    failure,
    final_of,
    unstorable,
)

RESPONSE_ID = "resp_" + "0" * 48
TURN = Turn(RESPONSE_ID, 1, b'{"model":"m"}')
NO_JOBS: Any = None
JOB_LEASE = JobLease(NO_JOBS, "t", Job(RESPONSE_ID, "q", b"", 1, 3, False, Fence(RESPONSE_ID, 1), 0))
WITHOUT_END = Precondition(statuses=UNFINISHED)
ITEM: Object = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}


class Store:
    """A store that keeps commits and appends. The first ones raise the given errors."""

    def __init__(self, *answers: Exception) -> None:
        self.answers = list(answers)
        self.commits: list[TurnCommit] = []
        self.appends: list[tuple[EventAppend, Fence | None]] = []

    async def commit_turn(self, _tenant: str, commit: TurnCommit) -> Stamp:
        self.commits.append(commit)
        if self.answers:
            raise self.answers.pop(0)
        return Stamp(1, 0, 0, 0)

    async def append_events(self, _tenant: str, append: EventAppend, *, fence: Fence | None) -> int:
        self.appends.append((append, fence))
        if self.answers:
            raise self.answers.pop(0)
        return 0


def so_far() -> Fold:
    born = response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1)
    fold = Fold()
    log: list[Object] = [
        {"type": events.CREATED, "response": born},
        {"type": events.OUTPUT_ITEM_ADDED, "output_index": 0, "item": ITEM},
    ]
    for number, event in enumerate(log):
        fold.feed(first_sequence=number, count=1, frames=events.encode(event | {"sequence_number": number}))
    return fold


def accepted(**members: Any) -> AcceptedTurn:
    return AcceptedTurn("t", TURN, **members)


def finisher(*answers: Exception) -> tuple[TurnFinisher, Store]:
    store = Store(*answers)
    made: Any = store
    return TurnFinisher(made), store


async def completed() -> Batch:
    """A terminal batch; a cancellation stands for all of them."""
    return await cancellation(so_far())


async def test_commit_has_the_fence_key_precondition_and_log_end_of_its_turn() -> None:
    finishing, store = finisher()
    batch, lease = await completed(), Lease(Fence("s", 2), RESPONSE_ID, 0)
    final = final_of(batch)
    turn = accepted(lease=lease, key="k", has_log=True, precondition=WITHOUT_END, job_lease=JOB_LEASE, parent_id="p")
    assert (await finishing.end(turn, so_far(), batch)).batch is batch
    (commit,) = store.commits
    assert commit == TurnCommit(
        turn.record(final.status, final.body, final.output_items),
        fence=lease.fence,
        idempotency_key="k",
        precondition=Precondition(statuses=UNFINISHED, fence=JOB_LEASE.fence),
        log_frames=LogFrames(batch.first_sequence, batch.frames),
    )


async def test_commit_of_a_plain_turn_has_no_fence_key_precondition_and_log_end() -> None:
    finishing, store = finisher()
    await finishing.end(accepted(), so_far(), await completed())
    (commit,) = store.commits
    assert (commit.fence, commit.idempotency_key, commit.log_frames) == (None, None, None)
    assert commit.precondition == NO_PRECONDITION


async def test_turn_that_is_not_stored_is_not_committed() -> None:
    finishing, store = finisher()
    batch = await completed()
    assert (await finishing.end(accepted(is_stored=False), so_far(), batch)).batch is batch
    assert store.commits == []


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (StoreUnavailable("gone"), True),
        (Timeout("late"), True),
        (StaleFence.of("s", token=1), False),
        (TooLarge("too much"), False),
    ],
)
async def test_turn_that_cannot_be_stored_ends_as_failed(error: AntiphonError, passes: bool) -> None:
    finishing, store = finisher(error)
    ended = await finishing.end(accepted(), so_far(), await completed())
    told = "The store does not answer." if isinstance(error, Timeout) else error.message
    assert events.decode(ended.batch.frames)[-1]["response"]["error"]["message"] == told
    assert (len(store.commits), ended.is_settled, store.appends) == (1, not passes, [])


@pytest.mark.parametrize(
    ("field", "param"), [("record.session_id", "conversation"), ("record", None), ("record.body", None), (None, None)]
)
async def test_error_of_a_commit_names_a_parameter_of_the_api(field: str | None, param: str | None) -> None:
    finishing, _ = finisher(LimitExceeded("As many as it may.", field=field, limit="1"))
    told = events.decode((await finishing.end(accepted(), so_far(), await completed())).batch.frames)
    assert (told[-2]["type"], told[-2]["code"], told[-2]["param"]) == ("error", "limit_exceeded", param)


@pytest.mark.parametrize(("error", "is_closed"), [(TooLarge("too much"), True), (StoreUnavailable("gone"), False)])
async def test_event_log_is_closed_only_if_the_turn_can_never_be_stored(error: AntiphonError, is_closed: bool) -> None:
    finishing, store = finisher(error)
    ended = await finishing.end(accepted(has_log=True, job_lease=JOB_LEASE), so_far(), await completed())
    end = EventAppend(RESPONSE_ID, 2, 2, ended.batch.frames, terminal=True)
    assert store.appends == ([(end, JOB_LEASE.fence)] if is_closed else [])


async def test_event_log_that_cannot_be_closed_does_not_hide_the_commit_error() -> None:
    finishing, _ = finisher(TooLarge("too much"), StaleFence.of("s", token=1))
    ended = await finishing.end(accepted(has_log=True), so_far(), await completed())
    assert b"too much" in ended.batch.frames


async def test_unexpected_error_is_logged_and_kept_from_the_client(caplog: pytest.LogCaptureFixture) -> None:
    finishing, _ = finisher()
    with caplog.at_level(logging.ERROR):
        batch = await finishing.break_off(accepted(), so_far(), ValueError("secret"))
    assert b"secret" not in batch.frames
    assert "secret" in caplog.text
    assert type(response.error_of(loads(final_of(batch).body))) is InternalError


async def test_a_cancellation_that_cannot_be_written_is_raised() -> None:
    finishing, store = finisher(StoreUnavailable("gone"))
    with pytest.raises(StoreUnavailable):
        await finishing.cancel(accepted(), so_far())
    assert store.commits[0].record.status is Status.CANCELLED


async def test_the_log_does_not_quote_the_request(caplog: pytest.LogCaptureFixture) -> None:
    finishing, _ = finisher()
    with caplog.at_level(logging.INFO):
        batch = await finishing.break_off(
            accepted(), so_far(), InvalidRequest("'canary' is no schema.", code="invalid_value")
        )
    assert b"'canary' is no schema." in batch.frames
    assert "was cut off: InvalidRequest invalid_value" in caplog.text
    assert "canary" not in caplog.text


async def test_output_that_cannot_be_stored_is_no_mistake_of_a_parameter() -> None:
    error = InvalidRequest("'record.output_items' has more than 9 values.", field="record.output_items")
    finishing, _ = finisher(error)
    told = events.decode((await finishing.end(accepted(), so_far(), await completed())).batch.frames)
    assert (told[-2]["type"], told[-2]["code"], told[-2]["param"]) == ("error", "request_too_large", None)
    assert "record" not in told[-2]["message"]


PARENT_ID = new_response_id(RandomIds())
CHILD_TURN = Turn(
    new_response_id(RandomIds(), relative=PARENT_ID), 1, b"{}", history=b'[{"id":"a"}]', input=b'[{"id":"b"}]'
)
CHILD = AcceptedTurn("t", CHILD_TURN, parent_id=PARENT_ID)


class Commits:
    """A store whose commits raise the given errors, and then succeed. Keeps the turns."""

    def __init__(self, *errors: AntiphonError) -> None:
        self.errors = list(errors)
        self.tried: list[AcceptedTurn] = []

    async def commit(self, accepted: AcceptedTurn) -> None:
        self.tried.append(accepted)
        if self.errors:
            raise self.errors.pop(0)


async def test_a_turn_with_its_parent_is_committed_once() -> None:
    commits = Commits()
    assert await commit_or_as_root(CHILD, commits.commit) == CHILD
    assert commits.tried == [CHILD]


async def test_turn_whose_parent_is_gone_is_committed_as_a_root() -> None:
    commits = Commits(ResponseNotFound.of(PARENT_ID))
    root = await commit_or_as_root(CHILD, commits.commit)
    assert commits.tried == [CHILD, root]
    assert (root.parent_id, root.turn.history, root.turn.input) == (None, b"[]", b'[{"id":"a"},{"id":"b"}]')


@pytest.mark.parametrize(
    ("accepted", "errors"),
    [
        (CHILD.as_root(), [ResponseNotFound.of(PARENT_ID)]),
        (CHILD, [ResponseNotFound.of(CHILD_TURN.response_id)]),
        (CHILD, [ResponseNotFound.of(PARENT_ID), TooLarge("too much")]),
    ],
    ids=["a root", "another response", "too large as a root"],
)
async def test_error_that_committing_a_root_cannot_avoid_is_raised(
    accepted: AcceptedTurn, errors: list[AntiphonError]
) -> None:
    commits = Commits(*errors)
    with pytest.raises(type(errors[-1])):
        await commit_or_as_root(accepted, commits.commit)
    assert len(commits.tried) == len(errors)


async def test_failure_continues_the_sequence_numbers_and_closes_open_items() -> None:
    batch = await failure(so_far(), EngineTimeout("no token"))
    log = events.decode(batch.frames)
    assert [(event["type"], event["sequence_number"]) for event in log] == [(events.ERROR, 2), (events.FAILED, 3)]
    assert (batch.first_sequence, batch.count) == (2, 2)
    ended = log[-1]["response"]
    assert (log[0]["code"], ended["status"]) == ("engine_timeout", "failed")
    assert (type(response.error_of(ended)), ended["error"]["message"]) == (EngineTimeout, "no token")
    assert ended["output"][0]["status"] == "incomplete"
    assert final_of(batch).status is Status.FAILED
    assert loads(response.join(final_of(batch).body, final_of(batch).output_items)) == ended == fold(log)


async def test_failed_response_keeps_its_error_code_only_if_openais_list_has_it() -> None:
    log = events.decode((await failure(so_far(), ContextLengthExceeded.of(input_tokens=9, context_length=8))).frames)
    assert log[0]["code"] == log[1]["response"]["error"]["code"] == "context_length_exceeded"
    assert (log[0]["error"]["type"], log[0]["param"]) == ("invalid_request_error", "input")
    log = events.decode((await failure(so_far(), StoreUnavailable("gone"))).frames)
    assert (log[0]["code"], log[1]["response"]["error"]["code"]) == ("store_unavailable", "server_error")


async def test_a_cancellation_is_one_event() -> None:
    batch = await cancellation(so_far())
    (event,) = events.decode(batch.frames)
    assert (event["type"], event["sequence_number"]) == (events.CANCELLED, 2)
    assert event["response"]["status"] == "cancelled"
    assert final_of(batch).status is Status.CANCELLED


def test_only_a_terminal_batch_ends_a_turn() -> None:
    with pytest.raises(AssertionError):
        final_of(Batch(0, 1, b""))


def ended_with(error: AntiphonError, output_tokens: int | None, *output: Object) -> Final:
    usage = None if output_tokens is None else response.usage(input_tokens=3, output_tokens=output_tokens)
    born = response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1)
    body, output_items = response.split(response.fail(born | {"usage": usage, "output": output}, error))
    return Final(Status.FAILED, body, output_items)


@pytest.mark.parametrize(
    ("final", "is_nothing"),
    [
        (ended_with(EngineUnavailable("overloaded"), 0), True),
        (ended_with(EngineTimeout("no token"), 0), True),
        (ended_with(TranslatorUnavailable("gone"), None), True),
        (ended_with(EngineUnavailable("overloaded"), 0, ITEM), True),  # an item that the model was forced to begin
        (ended_with(EngineUnavailable("gone"), 1), False),
        (ended_with(TranslatorUnavailable("gone"), None, ITEM), False),
        (ended_with(EngineFault("CUDA error"), 0), False),
        (ended_with(InvalidRequest("No."), 0), False),
        (Final(Status.COMPLETED, b"{}", b"[]"), False),
    ],
)
def test_only_a_temporary_failure_without_tokens_is_before_output(final: Final, is_nothing: bool) -> None:
    assert failed_before_output(final) is is_nothing


async def test_a_turn_whose_output_is_too_large_fails_without_it() -> None:
    folding = so_far()
    batch = await unstorable(folding)
    folding.feed(first_sequence=batch.first_sequence, count=batch.count, frames=batch.frames)
    ended = folding.response()
    assert (ended["status"], ended["output"]) == ("failed", [])
    assert batch.final is not None
    assert loads(response.join(batch.final.body, batch.final.output_items)) == ended
    assert isinstance(response.error_of(ended), TooLarge)


@pytest.mark.parametrize("make", [cancellation, unstorable, lambda fold: failure(fold, EngineTimeout("no token"))])
async def test_a_large_terminal_batch_is_made_off_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[Fold], Awaitable[Batch]]
) -> None:
    folding, threads = so_far(), list[int]()
    part = {"type": "output_text", "text": "x" * INLINE_BYTES_MAX}
    done = {"type": events.OUTPUT_ITEM_DONE, "output_index": 0, "item": ITEM | {"content": [part]}}
    folding.feed(first_sequence=2, count=1, frames=events.encode(done | {"sequence_number": 2}))
    split = response.split

    def recorded(ended: Object) -> tuple[bytes, bytes]:
        threads.append(get_ident())
        return split(ended)

    monkeypatch.setattr(response, "split", recorded)
    await make(folding)
    await make(so_far())
    assert threads[0] != threads[1] == get_ident()
