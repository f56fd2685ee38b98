from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, EngineTimes, Final, Model, Pause, Resume, Turn, Usage
from antiphon_protos.antiphon.translator import v1
from antiphon_translator import wire
from tests.support.sent import sent

TURN = Turn(response_id="resp_1", created_at=7, request=b'{"model":"m"}', history=b"[1]", input=b"[2]", cache_salt="s")


def test_turn_survives_the_wire() -> None:
    assert wire.turn_value(sent(wire.turn_message(TURN)), "default") == TURN


def test_round_of_a_turn_survives_the_wire() -> None:
    later = replace(TURN, output=b"[3]", used=Usage(9, 5, 2, 1), round_lineage=b"lineage")
    assert wire.turn_value(sent(wire.turn_message(later)), "default") == later


def test_pause_survives_the_wire() -> None:
    batch = Batch(0, 1, b"event", pause=Pause(b"[{}]", Usage(9, 5), "max_output_tokens", b"lineage"))
    assert wire.batch_value(sent(wire.batch_message(batch))) == batch


def test_turn_without_items_has_empty_arrays() -> None:
    turn = wire.turn_value(v1.Turn(response_id="resp_1", request=b"{}"), "acme")
    assert (turn.history, turn.input) == (b"[]", b"[]")


def test_missing_turn_is_rejected_with_its_field() -> None:
    with pytest.raises(InvalidRequest) as caught:
        wire.turn_value(None, "default")
    assert caught.value.field == "turn"


@pytest.mark.parametrize(
    ("status", "times"),
    [
        (Status.COMPLETED, EngineTimes(0, 2**40)),
        (Status.INCOMPLETE, EngineTimes(None, 7)),
        (Status.FAILED, EngineTimes()),
    ],
)
def test_final_batch_survives_the_wire(status: Status, times: EngineTimes) -> None:
    final = Final(status=status, body=b"{}", output_items=b"[]", times=times)
    batch = Batch(first_sequence=3, count=2, frames=b"event", final=final)
    assert wire.batch_value(sent(wire.batch_message(batch))) == batch


def test_batch_with_token_ids_survives_the_wire() -> None:
    batch = Batch(first_sequence=0, count=1, frames=b"event", token_ids=(7, 0, 151_643))
    assert wire.batch_value(sent(wire.batch_message(batch))) == batch


def test_model_survives_the_wire() -> None:
    model = Model(id="m", root="r", context_length=8, ready=False, created_at=5, reason="why")
    assert wire.model_value(sent(wire.model_message(model))) == model


@pytest.mark.parametrize("resume", [None, Resume(2), Resume(9, (7, 0, 151_643)), Resume(9, (), 4)])
def test_resume_position_survives_the_wire(resume: Resume | None) -> None:
    request = v1.GenerateRequest(resume=wire.resume_message(resume))
    assert wire.resume_value(sent(request).resume) == resume
