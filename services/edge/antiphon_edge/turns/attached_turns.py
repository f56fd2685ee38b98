"""The running turns that end with their caller, because they have no idempotency key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from antiphon_edge.turns.turn_runner import TurnRun


class AttachedTurns:
    """One instance serves all of a process."""

    def __init__(self) -> None:
        self._runs: set[TurnRun] = set()
        self._error: Exception | None = None

    def __len__(self) -> int:
        return len(self._runs)

    @contextmanager
    def running(self, run: TurnRun) -> Iterator[None]:
        """Counts a turn until the block is left."""
        self._runs.add(run)
        if self._error is not None:
            run.break_off(self._error)
        try:
            yield
        finally:
            self._runs.discard(run)

    def break_off(self, error: Exception) -> None:
        """Ends all turns with `error`, and each later one as it begins."""
        self._error = error
        for run in list(self._runs):
            run.break_off(error)
