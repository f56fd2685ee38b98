from __future__ import annotations

import itertools
from typing import Any

import pytest

from antiphon_core import events
from antiphon_core.errors import ChainTooLong, EngineFault, InvalidRequest, Unavailable
from antiphon_core.jsons import dumps, loads
from antiphon_core.limits import BODY_BYTES_MAX, SOCKET_WAITING_ITEMS_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Final, Turn
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.websocket import messages as socket_messages
from antiphon_edge.websocket import session as socket_session
from antiphon_edge.websocket.local_histories import LocalHistories
from antiphon_edge.websocket.session import Phase, Session, Step


def message(**members: Any) -> socket_messages.Create | socket_messages.Steer:
    body = {"type": "response.create", "model": "m", "input": "hi", "store": False}
    return socket_messages.parse(dumps(body | members).decode())


def begun(response_id: str = "resp_1", *, keep: bool = False) -> AcceptedTurn:
    return AcceptedTurn("t", Turn(response_id, 0, b"{}", history=b"[1]", input=b"[2]"), keep=keep)


def final(status: Status = Status.COMPLETED) -> Final:
    return Final(status, b"{}", b"[3]")


def session_after(response_id: str, **options: Any) -> Session:
    """A session that has made one response."""
    session = Session()
    assert session.receive(message()) == []
    session.begin()
    session.end(begun(response_id, **options), final())
    return session


def begin_next(session: Session, **members: Any) -> socket_session.Asked:
    session.receive(message(**members))
    return session.begin()


def test_the_table_has_a_row_for_each_step_that_can_happen() -> None:
    impossible = {
        (Phase.IDLE, Step.END),
        (Phase.RUNNING, Step.BEGIN),
        (Phase.LAST, Step.BEGIN),
        (Phase.OVER, Step.BEGIN),
        (Phase.OVER, Step.END),
    }
    assert set(socket_session._NEXT) == set(itertools.product(Phase, Step)) - impossible


def test_one_response_runs_and_the_others_wait_their_turn() -> None:
    session = Session()
    for text in ("a", "b"):
        assert session.receive(message(input=text)) == []
    assert session.has_next
    assert session.begin().create.request().input == "a"
    assert not session.has_next
    with pytest.raises(AssertionError, match="impossible"):
        session.begin()
    session.end(begun(), final())
    assert session.begin().create.request().input == "b"
    session.fail(EngineFault("no"))
    assert not session.has_next
    assert session.phase is Phase.IDLE


def test_what_is_wrong_with_a_request_is_told_in_its_turn() -> None:
    session = Session()
    assert session.receive(message(input=42, stream_id="x")) == []
    asked = session.begin()
    with pytest.raises(InvalidRequest) as raised:
        asked.create.request()
    (told,) = session.fail(raised.value)
    assert (loads(told)["error"]["param"], loads(told)["stream_id"]) == ("input", "x")
    assert session.phase is Phase.IDLE


def test_what_is_no_create_is_answered_at_once() -> None:
    session = Session()
    begin_next(session)
    (steered,) = session.receive(message(type="response.steer", previous_response_id="r"))
    assert loads(steered)["type"] == "response.steer.failed"
    assert session.phase is Phase.RUNNING


def test_events_carry_the_lane_of_their_response() -> None:
    session = Session()
    begin_next(session, stream_id="x")
    (told,) = session.told(events.encode({"type": "a"}))
    assert loads(told) == {"type": "a", "stream_id": "x"}


def test_a_response_that_is_not_stored_is_continued_from_here() -> None:
    session = session_after("resp_1")
    asked = begin_next(session, previous_response_id="resp_1")
    assert loads(asked.carried or b"") == [1, 2, 3]
    session.end(begun("resp_2"), final(Status.INCOMPLETE))
    assert begin_next(session, previous_response_id="resp_2").carried is not None
    session.end(begun("resp_3"), final())
    assert begin_next(session, previous_response_id="resp_1").carried is not None  # a fork


def test_a_stored_response_is_left_to_the_store() -> None:
    session = session_after("resp_1", keep=True)
    assert begin_next(session, previous_response_id="resp_1").carried is None


@pytest.mark.parametrize("how", ["error", "failed", "cancelled", "refused"])
def test_a_turn_that_fails_takes_what_it_continued_with_it(how: str) -> None:
    session = session_after("resp_1")
    if how == "refused":
        asked = begin_next(session, previous_response_id="resp_1", input=42)
        with pytest.raises(InvalidRequest) as raised:
            asked.create.request()
        session.fail(raised.value)
    elif how == "error":
        begin_next(session, previous_response_id="resp_1")
        session.fail(InvalidRequest("No tool call found."))
    else:
        begin_next(session, previous_response_id="resp_1")
        session.end(begun("resp_2"), final(Status(how)))
    assert begin_next(session, previous_response_id="resp_1").carried is None
    session.fail(InvalidRequest("not found"))
    assert begin_next(session, previous_response_id="resp_2").carried is None


def test_a_turn_that_fails_leaves_other_responses_alone() -> None:
    session = session_after("resp_1")
    begin_next(session)
    session.fail(EngineFault("no"))
    assert begin_next(session, previous_response_id="resp_1").carried is not None


def test_a_history_that_grew_too_large_says_so() -> None:
    session = Session(LocalHistories(bytes_max=3))
    begin_next(session)
    session.end(begun("resp_1"), final())
    session.receive(message(previous_response_id="resp_1"))
    with pytest.raises(ChainTooLong):
        session.begin()


def test_a_warm_up_generates_nothing() -> None:
    session = Session()
    assert not begin_next(session, generate=False).generates
    session.end(begun(), final())
    assert begin_next(session).generates


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
    session.begin()
    assert session.receive(message()) == []


def test_an_idle_connection_is_over_at_once_and_says_why_if_it_is_to() -> None:
    for say_so in (True, False):
        session = Session()
        session.close(InvalidRequest("old", code="websocket_connection_limit_reached"), say_so=say_so)
        assert session.phase is Phase.OVER
        assert len(session.farewell()) == say_so


def test_a_running_response_ends_before_the_connection_does() -> None:
    session = Session()
    begin_next(session)
    session.receive(message(stream_id="later"))
    session.close(Unavailable("bye"), say_so=False)
    session.close(InvalidRequest("old"), say_so=True)  # the first reason stands
    session.end(begun(), final())
    assert not session.has_next
    (told,) = session.farewell()
    assert (loads(told)["status"], loads(told)["stream_id"]) == (503, "later")
    session.close(Unavailable("bye"), say_so=False)
    assert session.phase is Phase.OVER


def test_without_a_reason_there_is_no_farewell() -> None:
    assert Session().farewell() == []
