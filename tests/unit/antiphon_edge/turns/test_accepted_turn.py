from __future__ import annotations

from antiphon_core.ids import RandomIds, new_response_id
from antiphon_core.ports.store import Fence, Lease, Record, Status
from antiphon_core.ports.translator import Final, Turn
from antiphon_edge.turns.accepted_turn import AcceptedTurn

RESPONSE_ID = new_response_id(RandomIds())
TURN = Turn(RESPONSE_ID, 1, b"{}", input=b'[{"id":"msg_1"}]')


def test_record_of_an_ended_turn_has_its_input_output_parent_and_session() -> None:
    accepted = AcceptedTurn("t", TURN, parent_id="resp_0", lease=Lease(Fence("s", 3), RESPONSE_ID, 9))
    final = Final(Status.FAILED, b'{"a":1}', b"[]")
    assert accepted.ended(final) == Record(
        id=RESPONSE_ID,
        status=Status.FAILED,
        body=b'{"a":1}',
        input_items=TURN.input,
        output_items=b"[]",
        parent_id="resp_0",
        session_id="s",
    )


def test_record_of_a_turn_without_a_lease_has_no_session() -> None:
    record = AcceptedTurn("t", TURN).record(Status.QUEUED, b"{}", b"[]")
    assert (record.session_id, record.parent_id, record.status) == (None, None, Status.QUEUED)


def test_turn_made_a_root_has_its_history_in_its_input() -> None:
    turn = Turn(RESPONSE_ID, 1, b"{}", history=b'[{"id":"msg_0"}]', input=TURN.input)
    root = AcceptedTurn("t", turn, parent_id="resp_0", key="k").as_root()
    record = root.record(Status.QUEUED, b"{}", b"[]")
    assert (record.parent_id, record.input_items) == (None, b'[{"id":"msg_0"},{"id":"msg_1"}]')
    assert (root.turn.history, root.key, root.response_id) == (b"[]", "k", RESPONSE_ID)
