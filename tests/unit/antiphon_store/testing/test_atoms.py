from __future__ import annotations

import pytest

from antiphon_core.ports.store import TurnRequest
from antiphon_store.testing.atoms import ATOMS, LIFE, READS
from antiphon_store.testing.calls import CALLS, atom_of

WRITES = (
    "put remove acquire_lease renew_lease release_lease begin_turn commit_turn "
    "change_status fork append_events enqueue_job hand_in take_back claim_job heartbeat_job settle_job cancel_job "
    "create_conversation update_conversation remove_conversation add_items remove_item "
    "begin_turn_once commit_turn_once put_once forget_key spend sweep"
)


def test_every_atom_reads_or_writes() -> None:
    assert set(ATOMS) == READS | set(WRITES.split())
    assert READS.isdisjoint(WRITES.split())


def test_the_life_of_an_engine_is_no_atom() -> None:
    assert LIFE.isdisjoint(ATOMS)


def test_the_kit_calls_every_atom() -> None:
    assert {atom_of(call) for call in CALLS} == set(ATOMS)


@pytest.mark.parametrize(
    ("request_", "writes"), [(TurnRequest(), False), (TurnRequest(session_id="s", holder="h"), True)]
)
def test_a_turn_writes_when_it_takes_a_lease(request_: TurnRequest, writes: bool) -> None:
    assert ATOMS["begin_turn"].writes(("t", request_), {}) is writes
    assert ATOMS["begin_turn"].writes(("t",), {"request": request_}) is writes
