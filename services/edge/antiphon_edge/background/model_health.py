"""A worker's circuit breaker for models that are down: one job at a time tries the model, the others are postponed.

Without it, each of a hundred jobs of such a model would hold a slot until its own attempt has timed out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from antiphon_core.clock import Clock
from antiphon_core.retrying import RetryPolicy


@dataclass(slots=True)
class _Outage:
    """A model that is down: the pauses between two tries, when the next try is due, and whether a job makes it now."""

    pauses_s: Iterator[float]
    pause_s: float = 0.0
    """The last of the pauses."""
    until_s: float = 0.0
    is_tried: bool = field(default=False)


class ModelHealth:
    """The models that could not be reached lately. One instance serves all slots of a worker."""

    def __init__(self, retry: RetryPolicy, *, clock: Clock) -> None:
        self._retry = retry
        self._clock = clock
        self._outages: dict[str, _Outage] = {}

    def begin(self, model: str) -> float:
        """Returns the seconds for which a job of the model must be postponed; 0 if it may run."""
        outage = self._outages.get(model)
        if outage is None:
            return 0.0
        rest_s = outage.until_s - self._clock.monotonic()
        if rest_s <= 0 and not outage.is_tried:
            outage.is_tried = True
            return 0.0
        return max(rest_s, outage.pause_s)

    def note_failure(self, model: str) -> None:
        """An attempt could not reach the model."""
        outage = self._outages.setdefault(model, _Outage(self._retry.pauses_s()))
        outage.pause_s = next(outage.pauses_s)
        outage.until_s = self._clock.monotonic() + outage.pause_s
        outage.is_tried = False

    def note_output(self, model: str) -> None:
        """The model has generated output."""
        self._outages.pop(model, None)

    def gave_up(self, model: str) -> None:
        """An attempt ended before it was known whether the model answers: the next job may try."""
        outage = self._outages.get(model)
        if outage is not None:
            outage.is_tried = False
