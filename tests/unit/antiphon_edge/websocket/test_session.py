from __future__ import annotations

import itertools
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.errors import ChainTooLong, EngineFault, InvalidRequest, Unavailable
from antiphon_core.jsons import dumps, loads
from antiphon_core.limits import BODY_BYTES_MAX, SOCKET_LANES_ITEMS_MAX, SOCKET_WAITING_ITEMS_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Final, Turn
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.websocket import messages as socket_messages
from antiphon_edge.websocket import session as socket_session
from antiphon_edge.websocket.local_histories import LocalHistories
from antiphon_edge.websocket.messages import Cancel, Create, Steer
from antiphon_edge.websocket.session import LaneTurn, Phase, Session, Step


def message(**members: Any) -> Create | Steer:
    body = {"type": "response.create", "model": "m", "input": "hi", "store": False}
    parsed = socket_messages.parse(dumps(body | members).decode())
    assert not isinstance(parsed, Cancel)
    return parsed


def begun(response_id: str = "resp_1", *, keep: bool = False) -> AcceptedTurn:
    return AcceptedTurn("t", Turn(response_id, 0, b"{}", history=b"[1]", input=b"[2]"), keep=keep)


def final(status: Status = Status.COMPLETED) -> Final:
    return Final(status, b"{}", b"[3]")


def session_after(response_id: str, *, lane: str | None = None, keep: bool = False) -> Session:
    """A session that has made one response."""
    session = Session(running_max=2)
    turn = begin_next(session, stream_id=lane)
    session.end(turn, begun(response_id, keep=keep), final())
    session.leave(turn)
    return session


def begin_next(session: Session, **members: Any) -> LaneTurn:
    assert session.receive(message(**members)) == []
    turn = session.begin()
    assert turn is not None
    return turn


def fail_next(session: Session, **members: Any) -> None:
    turn = begin_next(session, **members)
    session.fail(turn, EngineFault("no"))
    session.leave(turn)


def carried_by_next(session: Session, **members: Any) -> bytes | None:
    return session.carried_by(begin_next(session, **members))


def test_the_table_has_a_row_for_each_step_that_can_happen() -> None:
    impossible = {
        (Phase.IDLE, Step.END),
        (Phase.IDLE, Step.END_LAST),
        (Phase.LAST, Step.BEGIN),
        (Phase.OVER, Step.BEGIN),
        (Phase.OVER, Step.END),
        (Phase.OVER, Step.END_LAST),
    }
    assert set(socket_session._NEXT) == set(itertools.product(Phase, Step)) - impossible


def test_a_lane_runs_one_response_and_the_others_wait_their_turn() -> None:
    session = Session(running_max=2)
    first = begin_next(session, input="a", stream_id="x")
    session.receive(message(input="b", stream_id="x"))
    assert session.begin() is None
    session.end(first, begun(), final())
    assert session.begin() is None  # its last message is not sent yet
    session.leave(first)
    second = session.begin()
    assert second is not None
    assert (first.create.request().input, second.create.request().input) == ("a", "b")
    session.fail(second, EngineFault("no"))
    session.leave(second)
    assert session.phase is Phase.IDLE
    with pytest.raises(AssertionError, match="impossible"):
        session._step(Step.END)


def test_lanes_run_side_by_side_up_to_a_bound() -> None:
    session = Session(running_max=2)
    default = begin_next(session)
    begin_next(session, stream_id="x")
    for lane in ("y", "z"):
        session.receive(message(stream_id=lane))
    assert session.begin() is None
    session.leave(default)
    third = session.begin()
    assert third is not None
    assert (third.lane, list(session.running)) == ("y", ["x", "y"])


def test_a_lane_that_is_busy_holds_up_no_other() -> None:
    session = Session(running_max=3)
    begin_next(session, stream_id="x")
    for lane in ("x", "x", "y"):
        session.receive(message(stream_id=lane))
    following = session.begin()
    assert following is not None
    assert following.lane == "y"
    assert session.begin() is None


def test_a_connection_has_only_so_many_lanes_and_the_default_one() -> None:
    session = Session(running_max=1)
    for number in range(SOCKET_LANES_ITEMS_MAX):
        fail_next(session, stream_id=f"lane-{number}")
    (refused,) = session.receive(message(stream_id="one-more"))
    assert loads(refused)["error"]["code"] == "websocket_stream_limit_reached"
    assert (loads(refused)["error"]["param"], loads(refused)["stream_id"]) == ("stream_id", "one-more")
    fail_next(session)
    fail_next(session, stream_id="lane-0")


def test_a_lane_that_was_refused_does_not_count() -> None:
    session = Session()
    for _ in range(SOCKET_WAITING_ITEMS_MAX):
        session.receive(message())
    (refused,) = session.receive(message(stream_id="lane"))
    assert loads(refused)["error"]["code"] == "websocket_queue_full"
    assert not session._lanes


def test_what_is_wrong_with_a_request_is_told_in_its_turn() -> None:
    session = Session()
    turn = begin_next(session, input=42, stream_id="x")
    with pytest.raises(InvalidRequest) as raised:
        turn.create.request()
    (told,) = session.fail(turn, raised.value)
    assert (loads(told)["error"]["param"], loads(told)["stream_id"]) == ("input", "x")


def test_what_is_no_create_is_answered_at_once() -> None:
    session = Session()
    begin_next(session)
    (steered,) = session.receive(message(type="response.steer", previous_response_id="r"))
    assert loads(steered)["type"] == "response.steer.failed"
    assert "stream_id" not in loads(steered)
    assert session.phase is Phase.RUNNING


def test_a_steer_is_answered_on_the_lane_of_its_response() -> None:
    session = Session()
    begin_next(session, stream_id="x").response_id = "resp_1"
    (steered,) = session.receive(message(type="response.steer", previous_response_id="resp_1"))
    assert loads(steered)["stream_id"] == "x"


def test_events_carry_the_lane_of_their_response() -> None:
    turn = begin_next(Session(), stream_id="x")
    (told,) = turn.messages_of(events.encode({"type": "a"}))
    assert loads(told) == {"type": "a", "stream_id": "x"}


def test_a_cancel_finds_what_runs_on_its_lane_and_nothing_else() -> None:
    session = Session(running_max=2)
    turn = begin_next(session, stream_id="x")
    turn.response_id = "resp_1"
    assert session.turn_of(Cancel("x", None)) is turn
    assert session.turn_of(Cancel("x", "resp_1")) is turn
    assert session.turn_of(Cancel("x", "resp_2")) is None
    assert session.turn_of(Cancel(None, None)) is None
    turn.note_end()  # its record is being stored
    assert session.turn_of(Cancel("x", None)) is None


def test_a_cancelled_turn_says_so_and_leaves_what_it_continued() -> None:
    session = session_after("resp_1")
    turn = begin_next(session, previous_response_id="resp_1")
    turn.response_id = "resp_2"
    (told,) = session.cancel(turn)
    session.leave(turn)
    assert loads(told)["error"]["code"] == "response_cancelled"
    assert "'resp_2' was cancelled" in loads(told)["error"]["message"]
    assert carried_by_next(session, previous_response_id="resp_1") is not None


def test_a_response_that_is_not_stored_is_continued_from_here() -> None:
    session = session_after("resp_1")
    turn = begin_next(session, previous_response_id="resp_1")
    assert loads(session.carried_by(turn) or b"") == [1, 2, 3]
    session.end(turn, begun("resp_2"), final(Status.INCOMPLETE))
    session.leave(turn)
    assert carried_by_next(session, previous_response_id="resp_2", stream_id="x") is not None
    assert carried_by_next(session, previous_response_id="resp_1") is not None  # a fork


def test_a_stored_response_is_left_to_the_store() -> None:
    session = session_after("resp_1", keep=True)
    assert carried_by_next(session, previous_response_id="resp_1") is None


@pytest.mark.parametrize("how", ["error", "failed", "cancelled"])
def test_a_turn_that_fails_takes_what_it_continued_with_it(how: str) -> None:
    session = session_after("resp_1", lane="x")
    turn = begin_next(session, previous_response_id="resp_1", stream_id="x")
    if how == "error":
        session.fail(turn, InvalidRequest("No tool call found."))
    else:
        session.end(turn, begun("resp_2"), final(Status(how)))
    session.leave(turn)
    assert carried_by_next(session, previous_response_id="resp_1", stream_id="x") is None
    assert carried_by_next(session, previous_response_id="resp_2", stream_id="y") is None


def test_a_fork_that_fails_leaves_the_response_to_the_lane_that_made_it() -> None:
    session = session_after("resp_1", lane="x")
    fail_next(session, previous_response_id="resp_1", stream_id="y")
    assert carried_by_next(session, previous_response_id="resp_1", stream_id="x") is not None


def test_a_turn_that_fails_leaves_other_responses_alone() -> None:
    session = session_after("resp_1")
    fail_next(session)
    assert carried_by_next(session, previous_response_id="resp_1") is not None


def test_a_history_that_grew_too_large_says_so() -> None:
    session = Session(LocalHistories(bytes_max=3))
    turn = begin_next(session)
    session.end(turn, begun("resp_1"), final())
    session.leave(turn)
    following = begin_next(session, previous_response_id="resp_1")
    with pytest.raises(ChainTooLong):
        session.carried_by(following)


def test_a_warm_up_generates_nothing() -> None:
    session = Session(running_max=2)
    assert not begin_next(session, generate=False).generates
    assert begin_next(session, stream_id="x").generates


def test_only_so_many_wait() -> None:
    session = Session()
    for _ in range(SOCKET_WAITING_ITEMS_MAX):
        assert session.receive(message()) == []
    (refused,) = session.receive(message(stream_id="lane"))
    assert loads(refused)["error"]["code"] == "websocket_queue_full"
    assert loads(refused)["stream_id"] == "lane"


def test_only_so_many_bytes_wait_and_one_of_any_size() -> None:
    session = Session()
    large = message(input="x" * BODY_BYTES_MAX)
    assert session.receive(large) == []
    (refused,) = session.receive(message())
    assert loads(refused)["error"]["code"] == "websocket_queue_full"
    assert session.waiting_bytes > BODY_BYTES_MAX
    session.begin()
    assert session.waiting_bytes == 0
    assert session.receive(message()) == []


def test_an_idle_connection_is_over_at_once_and_says_why_if_it_is_to() -> None:
    for say_so in (True, False):
        session = Session()
        session.close(InvalidRequest("old", code="websocket_connection_limit_reached"), say_so=say_so)
        assert session.phase is Phase.OVER
        assert len(session.farewell()) == say_so


def test_running_responses_end_before_the_connection_does() -> None:
    session = Session(running_max=2)
    turns = [begin_next(session, stream_id=lane) for lane in ("x", "y")]
    session.receive(message(stream_id="later"))
    session.close(Unavailable("bye"), say_so=False)
    session.close(InvalidRequest("old"), say_so=True)  # the first reason stands
    for turn in turns:
        assert session.phase is Phase.LAST
        session.end(turn, begun(), final())
        session.leave(turn)
        assert session.begin() is None
    (told,) = session.farewell()
    assert (loads(told)["status"], loads(told)["stream_id"]) == (503, "later")
    session.close(Unavailable("bye"), say_so=False)
    assert session.phase is Phase.OVER


def test_without_a_reason_there_is_no_farewell() -> None:
    assert Session().farewell() == []
