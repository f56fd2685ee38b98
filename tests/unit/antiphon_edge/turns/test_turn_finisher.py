from __future__ import annotations

import logging
from itertools import count
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
    StaleFence,
    StoreUnavailable,
    Timeout,
    TooLarge,
    TranslatorUnavailable,
)
from antiphon_core.fold import Fold, fold
from antiphon_core.jsons import Object, loads
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Lease, LogEnd, Precondition, Stamp, Status, TurnCommit
from antiphon_core.ports.translator import Batch, Final, Turn
from antiphon_edge.turns import store_patience
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.turns.turn_finisher import TurnFinisher, came_to_nothing, cancellation, failure, final_of


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is away is waited for in seconds of a clock that goes on when it is looked at."""
    monkeypatch.setattr(store_patience, "_now", count().__next__)
    monkeypatch.setattr(store_patience, "PAUSE_MIN_S", 0.001)
    monkeypatch.setattr(store_patience, "PAUSE_MAX_S", 0.005)


RESPONSE_ID = "resp_" + "0" * 48
TURN = Turn(RESPONSE_ID, 1, b'{"model":"m"}')
ITEM: Object = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}


class Store:
    """Keeps commits, after as many errors as it was given."""

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


def said() -> Fold:
    born = response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1)
    so_far = Fold()
    log: list[Object] = [
        {"type": events.CREATED, "response": born},
        {"type": events.OUTPUT_ITEM_ADDED, "output_index": 0, "item": ITEM},
    ]
    for number, event in enumerate(log):
        so_far.feed(first_sequence=number, count=1, frames=events.encode(event | {"sequence_number": number}))
    return so_far


def begun(**members: Any) -> AcceptedTurn:
    return AcceptedTurn("t", TURN, **members)


def endings(*answers: Exception) -> tuple[TurnFinisher, Store]:
    store = Store(*answers)
    made: Any = store
    return TurnFinisher(made), store


def completed() -> Batch:
    """What a translator sends last; a cancellation is as good as any."""
    return cancellation(said())


def test_a_failure_goes_on_with_the_numbers_and_closes_what_was_open() -> None:
    batch = failure(said(), EngineTimeout("no token"))
    log = events.decode(batch.frames)
    assert [(event["type"], event["sequence_number"]) for event in log] == [(events.ERROR, 2), (events.FAILED, 3)]
    assert (batch.first_sequence, batch.count) == (2, 2)
    ended = log[-1]["response"]
    assert (log[0]["code"], ended["status"]) == ("engine_timeout", "failed")
    assert (type(response.error_of(ended)), ended["error"]["message"]) == (EngineTimeout, "no token")
    assert ended["output"][0]["status"] == "incomplete"
    assert final_of(batch).status is Status.FAILED
    assert loads(response.join(final_of(batch).body, final_of(batch).output_items)) == ended == fold(log)


def test_a_failure_says_what_it_was_where_openais_list_has_it() -> None:
    log = events.decode(failure(said(), ContextLengthExceeded.of(input_tokens=9, context_length=8)).frames)
    assert log[0]["code"] == log[1]["response"]["error"]["code"] == "context_length_exceeded"
    assert (log[0]["error"]["type"], log[0]["param"]) == ("invalid_request_error", "input")
    log = events.decode(failure(said(), StoreUnavailable("gone")).frames)
    assert (log[0]["code"], log[1]["response"]["error"]["code"]) == ("store_unavailable", "server_error")


def test_a_cancellation_is_one_event() -> None:
    batch = cancellation(said())
    (event,) = events.decode(batch.frames)
    assert (event["type"], event["sequence_number"]) == (events.CANCELLED, 2)
    assert event["response"]["status"] == "cancelled"
    assert final_of(batch).status is Status.CANCELLED


def test_only_a_terminal_batch_ends_a_turn() -> None:
    with pytest.raises(AssertionError):
        final_of(Batch(0, 1, b""))


async def test_a_commit_has_all_that_its_turn_took() -> None:
    to, store = endings()
    batch, fence = completed(), Precondition(fence=Fence(RESPONSE_ID, 1))
    lease = Lease(Fence("s", 2), RESPONSE_ID, 0)
    turn = begun(lease=lease, key="k", logged=True, precondition=fence, parent_id="p")
    assert (await to.end(turn, said(), batch)).batch is batch
    (commit,) = store.commits
    assert commit == TurnCommit(
        turn.ended(final_of(batch)),
        fence=lease.fence,
        idempotency_key="k",
        precondition=fence,
        log_end=LogEnd(batch.first_sequence, batch.frames),
    )


async def test_a_plain_turn_has_none_of_it() -> None:
    to, store = endings()
    await to.end(begun(), said(), completed())
    (commit,) = store.commits
    assert (commit.fence, commit.idempotency_key, commit.log_end) == (None, None, None)
    assert commit.precondition == NO_PRECONDITION


async def test_what_is_not_kept_is_not_written() -> None:
    to, store = endings()
    batch = completed()
    assert (await to.end(begun(keep=False), said(), batch)).batch is batch
    assert store.commits == []


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), Timeout("late")])
async def test_a_commit_that_may_have_happened_is_sent_again_as_it_was(error: Exception) -> None:
    to, store = endings(error)
    batch = completed()
    assert (await to.end(begun(), said(), batch)).batch is batch
    assert store.commits[0] == store.commits[1]


async def test_a_finished_answer_waits_for_a_store_that_is_away() -> None:
    to, store = endings(*[StoreUnavailable("gone"), Timeout("late")] * 3)
    batch = completed()
    assert (await to.end(begun(), said(), batch)).batch is batch
    assert len(store.commits) == 7


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (StoreUnavailable("gone"), True),
        (Timeout("late"), True),
        (StaleFence.of("s", token=1), False),
        (TooLarge("too much"), False),
    ],
)
async def test_what_cannot_be_stored_is_told_as_failed(error: AntiphonError, passes: bool) -> None:
    to, store = endings(*[error] * 1000)
    ended = await to.end(begun(), said(), completed())
    assert events.decode(ended.batch.frames)[-1]["response"]["error"]["message"] == error.message
    assert (len(store.commits) > 1, ended.is_settled, store.appends) == (passes, not passes, [])


@pytest.mark.parametrize(
    ("field", "param"), [("record.session_id", "conversation"), ("record", None), ("record.body", None), (None, None)]
)
async def test_what_cannot_be_stored_is_told_by_names_that_the_caller_knows(
    field: str | None, param: str | None
) -> None:
    to, _ = endings(LimitExceeded("As many as it may.", field=field, limit="1"))
    told = events.decode((await to.end(begun(), said(), completed())).batch.frames)
    assert (told[-2]["type"], told[-2]["code"], told[-2]["param"]) == ("error", "limit_exceeded", param)


@pytest.mark.parametrize(("error", "is_closed"), [(TooLarge("too much"), True), (StoreUnavailable("gone"), False)])
async def test_the_log_of_what_can_never_be_stored_is_closed(error: AntiphonError, is_closed: bool) -> None:
    to, store = endings(*[error] * 1000)
    fence = Fence(RESPONSE_ID, 1)
    ended = await to.end(begun(logged=True, precondition=Precondition(fence=fence)), said(), completed())
    end = EventAppend(RESPONSE_ID, 2, 2, ended.batch.frames, terminal=True)
    assert store.appends == ([(end, fence)] if is_closed else [])


async def test_a_log_that_stays_open_does_not_hide_why() -> None:
    to, _ = endings(TooLarge("too much"), StaleFence.of("s", token=1))
    ended = await to.end(begun(logged=True), said(), completed())
    assert b"too much" in ended.batch.frames


def ended_with(error: AntiphonError, output_tokens: int | None, *output: Object) -> Final:
    usage = None if output_tokens is None else response.usage(input_tokens=3, output_tokens=output_tokens)
    born = response.skeleton({"model": "m"}, response_id=RESPONSE_ID, created_at=1)
    body, output_items = response.split(response.failed(born | {"usage": usage, "output": output}, error))
    return Final(Status.FAILED, body, output_items)


@pytest.mark.parametrize(
    ("final", "is_nothing"),
    [
        (ended_with(EngineUnavailable("overloaded"), 0), True),
        (ended_with(EngineTimeout("no token"), 0), True),
        (ended_with(TranslatorUnavailable("gone"), None), True),
        (ended_with(EngineUnavailable("overloaded"), 0, ITEM), True),  # what the model was made to begin with
        (ended_with(EngineUnavailable("gone"), 1), False),
        (ended_with(TranslatorUnavailable("gone"), None, ITEM), False),
        (ended_with(EngineFault("CUDA error"), 0), False),
        (ended_with(InvalidRequest("No."), 0), False),
        (Final(Status.COMPLETED, b"{}", b"[]"), False),
    ],
)
def test_what_came_to_nothing_said_nothing_and_may_succeed_the_next_time(final: Final, is_nothing: bool) -> None:
    assert came_to_nothing(final) is is_nothing


def test_a_bug_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    to, _ = endings()
    with caplog.at_level(logging.ERROR):
        batch = to.broken(begun(), said(), ValueError("secret"))
    assert b"secret" not in batch.frames
    assert "secret" in caplog.text
    assert type(response.error_of(loads(final_of(batch).body))) is InternalError


async def test_a_cancellation_that_cannot_be_written_is_raised() -> None:
    to, store = endings(*[StoreUnavailable("gone")] * 1000)
    with pytest.raises(StoreUnavailable):
        await to.cancel(begun(), said())
    assert store.commits[0].record.status is Status.CANCELLED
