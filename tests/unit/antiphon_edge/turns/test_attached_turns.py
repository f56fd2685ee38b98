from __future__ import annotations

from typing import Any

from antiphon_core.errors import Unavailable
from antiphon_edge.turns.attached_turns import AttachedTurns

ERROR = Unavailable.at_shutdown("Send the request again.")


class Run:
    """The part of a TurnRun that is used."""

    error: Exception | None = None

    def break_off(self, error: Exception) -> None:
        self.error = error


def test_running_and_later_turns_are_broken_off_and_ended_ones_are_not() -> None:
    turns = AttachedTurns()
    ended, running, later = runs = [Run(), Run(), Run()]
    as_runs: list[Any] = [*runs]
    with turns.running(as_runs[0]):
        assert len(turns) == 1
    with turns.running(as_runs[1]):
        turns.break_off(ERROR)
        with turns.running(as_runs[2]):
            assert len(turns) == 2
    assert (ended.error, running.error, later.error) == (None, ERROR, ERROR)
    assert len(turns) == 0
