from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from antiphon_core.errors import Unavailable
from antiphon_core.rpc.delivery import UNCOUNTED_BYTES_MAX, Delivery
from antiphon_core.rpc.intake import IntakeLimits

LARGE = b"x" * (UNCOUNTED_BYTES_MAX + 1)
SMALL = b"x" * UNCOUNTED_BYTES_MAX
LIMITS = IntakeLimits(bytes_max=3 * len(LARGE), caller_bytes_max=2 * len(LARGE))


class Context:
    """A call that the test ends."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[Any], None]] = []

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.callbacks.append(callback)

    def end(self) -> None:
        for callback in self.callbacks:
            callback(self)


def test_a_large_answer_counts_until_its_call_ends() -> None:
    delivery, calls = Delivery(LIMITS), [Context() for _ in range(3)]
    for call in calls[:2]:
        assert delivery.count(call, "a", LARGE) is LARGE  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="not read yet"):
        delivery.count(calls[2], "a", LARGE)  # type: ignore[arg-type]
    calls[0].end()
    delivery.count(calls[2], "a", LARGE)  # type: ignore[arg-type]
    calls[1].end()
    calls[2].end()
    assert delivery.budget.is_unused


def test_an_answer_of_a_stream_counts_until_the_next_one() -> None:
    delivery = Delivery(LIMITS)
    with delivery.counted("a", LARGE), delivery.counted("a", LARGE):
        with pytest.raises(Unavailable), delivery.counted("a", LARGE):
            pass
        with delivery.counted("b", LARGE):
            pass
    assert delivery.budget.is_unused


def test_small_answers_do_not_count() -> None:
    delivery, call = Delivery(LIMITS), Context()
    assert delivery.count(call, "a", SMALL) is SMALL  # type: ignore[arg-type]
    with delivery.counted("a", SMALL) as data:
        assert data is SMALL
        assert delivery.budget.is_unused
    assert not call.callbacks
