"""The end of a log as a value. Through a store: `antiphon_store.testing.event_logs`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import LogClosed, PositionMismatch
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch
from antiphon_store.backends import log_states
from antiphon_store.backends.log_states import NO_LOG, LogState

APPEND = EventAppend("resp_1", 0, 2, b"a\n\nb\n\n", Checkpoint(3, (1,)))
OPEN = LogState(2, closed=False, expires_at_ms=150)


def test_a_log_begins_and_goes_on() -> None:
    state = log_states.extended(NO_LOG, APPEND, ttl_ms=100, now_ms=50)
    assert state == OPEN
    last = replace(APPEND, expected_position=2, count=1, terminal=True)
    assert log_states.extended(state, last, ttl_ms=100, now_ms=60) == LogState(3, closed=True, expires_at_ms=160)


@pytest.mark.parametrize("position", [0, 1, 3])
def test_it_goes_on_where_it_ends(position: int) -> None:
    with pytest.raises(PositionMismatch) as caught:
        log_states.extended(OPEN, replace(APPEND, expected_position=position), ttl_ms=1, now_ms=0)
    assert caught.value.facts == {"id": "resp_1", "expected": str(position), "actual": "2"}


def test_a_closed_log_goes_on_nowhere() -> None:
    for position in (0, 2, 9):
        with pytest.raises(LogClosed):
            append = replace(APPEND, expected_position=position)
            log_states.extended(replace(OPEN, closed=True), append, ttl_ms=1, now_ms=0)


def test_a_log_is_there_until_it_expires() -> None:
    assert OPEN.is_there(149)
    assert not OPEN.is_there(150)
    assert not NO_LOG.is_there(0)


def test_what_is_stored_of_an_append() -> None:
    assert log_states.batch_of(APPEND) == EventBatch(0, 2, APPEND.frames, False, (Checkpoint(3, (1,)),))
    assert log_states.batch_of(replace(APPEND, checkpoint=None)).checkpoints == ()
    assert log_states.next_position(replace(APPEND, expected_position=5)) == 7
