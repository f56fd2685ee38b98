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
from antiphon_edge.websocket import lanes as socket_lanes
from antiphon_edge.websocket import messages as socket_messages
from antiphon_edge.websocket.lanes import Lanes, LaneTurn, Phase, Step
from antiphon_edge.websocket.local_histories import LocalHistories
from antiphon_edge.websocket.messages import Cancel, Create, Steer


def message(**members: Any) -> Create | Steer:
    body = {"type": "response.create", "model": "m", "input": "hi", "store": False}
    parsed = socket_messages.parse(dumps(body | members).decode())
    assert not isinstance(parsed, Cancel)
    return parsed


def accepted_turn(response_id: str = "resp_1", *, is_stored: bool = False) -> AcceptedTurn:
    return AcceptedTurn("t", Turn(response_id, 0, b"{}", history=b"[1]", input=b"[2]"), is_stored=is_stored)


def final(status: Status = Status.COMPLETED) -> Final:
    return Final(status, b"{}", b"[3]")


def lanes_after(response_id: str, *, lane: str | None = None, is_stored: bool = False) -> Lanes:
    """Lanes that have made one response."""
    lanes = Lanes(running_max=2)
    turn = begin_next(lanes, stream_id=lane)
    lanes.end(turn, accepted_turn(response_id, is_stored=is_stored), final())
    lanes.leave(turn)
    return lanes


def begin_next(lanes: Lanes, **members: Any) -> LaneTurn:
    assert lanes.receive(message(**members)) == []
    turn = lanes.begin()
    assert turn is not None
    return turn


def fail_next(lanes: Lanes, **members: Any) -> None:
    turn = begin_next(lanes, **members)
    lanes.fail(turn, EngineFault("no"))
    lanes.leave(turn)


def carried_by_next(lanes: Lanes, **members: Any) -> bytes | None:
    return lanes.carried_by(begin_next(lanes, **members))


def test_the_table_has_a_row_for_each_step_that_can_happen() -> None:
    impossible = {
        (Phase.IDLE, Step.END),
        (Phase.IDLE, Step.END_LAST),
        (Phase.LAST, Step.BEGIN),
        (Phase.OVER, Step.BEGIN),
        (Phase.OVER, Step.END),
        (Phase.OVER, Step.END_LAST),
    }
    assert set(socket_lanes._NEXT) == set(itertools.product(Phase, Step)) - impossible


def test_a_lane_runs_one_response_and_the_others_wait_their_turn() -> None:
    lanes = Lanes(running_max=2)
    first = begin_next(lanes, input="a", stream_id="x")
    lanes.receive(message(input="b", stream_id="x"))
    assert lanes.begin() is None
    lanes.end(first, accepted_turn(), final())
    assert lanes.begin() is None  # its last message is not sent yet
    lanes.leave(first)
    second = lanes.begin()
    assert second is not None
    assert (first.create.request().input, second.create.request().input) == ("a", "b")
    lanes.fail(second, EngineFault("no"))
    lanes.leave(second)
    assert lanes.phase is Phase.IDLE
    with pytest.raises(AssertionError, match="impossible"):
        lanes._step(Step.END)


def test_lanes_run_side_by_side_up_to_a_bound() -> None:
    lanes = Lanes(running_max=2)
    default = begin_next(lanes)
    begin_next(lanes, stream_id="x")
    for lane in ("y", "z"):
        lanes.receive(message(stream_id=lane))
    assert lanes.begin() is None
    lanes.leave(default)
    third = lanes.begin()
    assert third is not None
    assert (third.lane, list(lanes.running)) == ("y", ["x", "y"])


def test_a_lane_that_is_busy_holds_up_no_other() -> None:
    lanes = Lanes(running_max=3)
    begin_next(lanes, stream_id="x")
    for lane in ("x", "x", "y"):
        lanes.receive(message(stream_id=lane))
    following = lanes.begin()
    assert following is not None
    assert following.lane == "y"
    assert lanes.begin() is None


def test_lane_beyond_the_limit_of_a_connection_is_rejected() -> None:
    lanes = Lanes(running_max=1)
    for number in range(SOCKET_LANES_ITEMS_MAX):
        fail_next(lanes, stream_id=f"lane-{number}")
    (refused,) = lanes.receive(message(stream_id="one-more"))
    assert loads(refused)["error"]["code"] == "websocket_stream_limit_reached"
    assert (loads(refused)["error"]["param"], loads(refused)["stream_id"]) == ("stream_id", "one-more")
    fail_next(lanes)
    fail_next(lanes, stream_id="lane-0")


def test_rejected_lane_does_not_count_towards_the_limit() -> None:
    lanes = Lanes()
    for _ in range(SOCKET_WAITING_ITEMS_MAX):
        lanes.receive(message())
    (refused,) = lanes.receive(message(stream_id="lane"))
    assert loads(refused)["error"]["code"] == "websocket_queue_full"
    assert not lanes._lane_names


def test_invalid_request_is_rejected_on_its_lane() -> None:
    lanes = Lanes()
    turn = begin_next(lanes, input=42, stream_id="x")
    with pytest.raises(InvalidRequest) as raised:
        turn.create.request()
    (told,) = lanes.fail(turn, raised.value)
    assert (loads(told)["error"]["param"], loads(told)["stream_id"]) == ("input", "x")


def test_steer_is_answered_at_once_while_a_response_runs() -> None:
    lanes = Lanes()
    begin_next(lanes)
    (steered,) = lanes.receive(message(type="response.steer", previous_response_id="r"))
    assert loads(steered)["type"] == "response.steer.failed"
    assert "stream_id" not in loads(steered)
    assert lanes.phase is Phase.RUNNING


def test_a_steer_is_answered_on_the_lane_of_its_response() -> None:
    lanes = Lanes()
    begin_next(lanes, stream_id="x").response_id = "resp_1"
    (steered,) = lanes.receive(message(type="response.steer", previous_response_id="resp_1"))
    assert loads(steered)["stream_id"] == "x"


def test_events_carry_the_lane_of_their_response() -> None:
    turn = begin_next(Lanes(), stream_id="x")
    (told,) = turn.messages_of(events.encode({"type": "a"}))
    assert loads(told) == {"type": "a", "stream_id": "x"}


def test_cancel_finds_only_the_response_that_runs_on_its_lane() -> None:
    lanes = Lanes(running_max=2)
    turn = begin_next(lanes, stream_id="x")
    turn.response_id = "resp_1"
    assert lanes.turn_of(Cancel("x", None)) is turn
    assert lanes.turn_of(Cancel("x", "resp_1")) is turn
    assert lanes.turn_of(Cancel("x", "resp_2")) is None
    assert lanes.turn_of(Cancel(None, None)) is None
    turn.note_end()  # its record is being stored
    assert lanes.turn_of(Cancel("x", None)) is None


def test_cancelled_turn_is_reported_and_keeps_the_history_that_it_continued() -> None:
    lanes = lanes_after("resp_1")
    turn = begin_next(lanes, previous_response_id="resp_1")
    turn.response_id = "resp_2"
    (told,) = lanes.cancel(turn)
    lanes.leave(turn)
    assert loads(told)["error"]["code"] == "response_cancelled"
    assert "'resp_2' was cancelled" in loads(told)["error"]["message"]
    assert carried_by_next(lanes, previous_response_id="resp_1") is not None


def test_unstored_response_is_continued_from_the_local_history() -> None:
    lanes = lanes_after("resp_1")
    turn = begin_next(lanes, previous_response_id="resp_1")
    assert loads(lanes.carried_by(turn) or b"") == [1, 2, 3]
    lanes.end(turn, accepted_turn("resp_2"), final(Status.INCOMPLETE))
    lanes.leave(turn)
    assert carried_by_next(lanes, previous_response_id="resp_2", stream_id="x") is not None
    assert carried_by_next(lanes, previous_response_id="resp_1") is not None  # a fork


def test_local_history_of_an_incomplete_response_has_its_calls_as_incomplete() -> None:
    lanes = Lanes(running_max=2)
    turn = begin_next(lanes)
    call = {"type": "function_call", "call_id": "c", "status": "completed"}
    lanes.end(turn, accepted_turn(), Final(Status.INCOMPLETE, b"{}", dumps([call])))
    lanes.leave(turn)
    assert loads(carried_by_next(lanes, previous_response_id="resp_1") or b"")[-1] == call | {"status": "incomplete"}


def test_a_stored_response_is_left_to_the_store() -> None:
    lanes = lanes_after("resp_1", is_stored=True)
    assert carried_by_next(lanes, previous_response_id="resp_1") is None


@pytest.mark.parametrize("how", ["error", "failed", "cancelled"])
def test_failed_turn_forgets_the_response_that_it_continued(how: str) -> None:
    lanes = lanes_after("resp_1", lane="x")
    turn = begin_next(lanes, previous_response_id="resp_1", stream_id="x")
    if how == "error":
        lanes.fail(turn, InvalidRequest("No tool call found."))
    else:
        lanes.end(turn, accepted_turn("resp_2"), final(Status(how)))
    lanes.leave(turn)
    assert carried_by_next(lanes, previous_response_id="resp_1", stream_id="x") is None
    assert carried_by_next(lanes, previous_response_id="resp_2", stream_id="y") is None


def test_a_fork_that_fails_leaves_the_response_to_the_lane_that_made_it() -> None:
    lanes = lanes_after("resp_1", lane="x")
    fail_next(lanes, previous_response_id="resp_1", stream_id="y")
    assert carried_by_next(lanes, previous_response_id="resp_1", stream_id="x") is not None


def test_a_turn_that_fails_leaves_other_responses_alone() -> None:
    lanes = lanes_after("resp_1")
    fail_next(lanes)
    assert carried_by_next(lanes, previous_response_id="resp_1") is not None


def test_continuation_of_a_history_over_the_limit_is_rejected() -> None:
    lanes = Lanes(LocalHistories(bytes_max=3))
    turn = begin_next(lanes)
    lanes.end(turn, accepted_turn("resp_1"), final())
    lanes.leave(turn)
    following = begin_next(lanes, previous_response_id="resp_1")
    with pytest.raises(ChainTooLong):
        lanes.carried_by(following)


def test_message_beyond_the_limit_of_waiting_messages_is_rejected() -> None:
    lanes = Lanes()
    for _ in range(SOCKET_WAITING_ITEMS_MAX):
        assert lanes.receive(message()) == []
    (refused,) = lanes.receive(message(stream_id="lane"))
    assert loads(refused)["error"]["code"] == "websocket_queue_full"
    assert loads(refused)["stream_id"] == "lane"


def test_waiting_bytes_are_limited_but_one_message_may_have_any_size() -> None:
    lanes = Lanes()
    large = message(input="x" * BODY_BYTES_MAX)
    assert lanes.receive(large) == []
    (refused,) = lanes.receive(message())
    assert loads(refused)["error"]["code"] == "websocket_queue_full"
    assert lanes.waiting_bytes > BODY_BYTES_MAX
    lanes.begin()
    assert lanes.waiting_bytes == 0
    assert lanes.receive(message()) == []


def test_idle_connection_closes_at_once_and_gives_the_reason_on_demand() -> None:
    for say_so in (True, False):
        lanes = Lanes()
        lanes.close(InvalidRequest("old", code="websocket_connection_limit_reached"), say_so=say_so)
        assert lanes.phase is Phase.OVER
        assert len(lanes.farewell()) == say_so


def test_running_responses_end_before_the_connection_does() -> None:
    lanes = Lanes(running_max=2)
    turns = [begin_next(lanes, stream_id=lane) for lane in ("x", "y")]
    lanes.receive(message(stream_id="later"))
    lanes.close(Unavailable("bye"), say_so=False)
    lanes.close(InvalidRequest("old"), say_so=True)  # the first reason stands
    for turn in turns:
        assert lanes.phase is Phase.LAST
        lanes.end(turn, accepted_turn(), final())
        lanes.leave(turn)
        assert lanes.begin() is None
    (told,) = lanes.farewell()
    assert (loads(told)["status"], loads(told)["stream_id"]) == (503, "later")
    lanes.close(Unavailable("bye"), say_so=False)
    assert lanes.phase is Phase.OVER


def test_connection_without_a_close_reason_sends_no_farewell() -> None:
    assert Lanes().farewell() == []
