from __future__ import annotations

import pytest

from antiphon_core.errors import Unavailable
from antiphon_core.rpc.delivery import UNCOUNTED_BYTES_MAX, Delivery
from antiphon_core.rpc.intake import IntakeLimits
from tests.support.fake_call import FakeCall

LARGE = b"x" * (UNCOUNTED_BYTES_MAX + 1)
SMALL = b"x" * UNCOUNTED_BYTES_MAX
LIMITS = IntakeLimits(bytes_max=3 * len(LARGE), caller_bytes_max=2 * len(LARGE))


def test_a_large_answer_counts_until_its_call_ends() -> None:
    delivery, calls = Delivery(LIMITS), [FakeCall() for _ in range(3)]
    for call in calls[:2]:
        assert delivery.count(call.call, "a", LARGE) is LARGE
    with pytest.raises(Unavailable, match="not read yet"):
        delivery.count(calls[2].call, "a", LARGE)
    calls[0].end()
    delivery.count(calls[2].call, "a", LARGE)
    calls[1].end()
    calls[2].end()
    assert delivery.budget.is_unused


def test_an_answer_of_a_stream_counts_until_the_next_one() -> None:
    delivery = Delivery(LIMITS)
    with delivery.count_answer("a", LARGE), delivery.count_answer("a", LARGE):
        with pytest.raises(Unavailable), delivery.count_answer("a", LARGE):
            pass
        with delivery.count_answer("b", LARGE):
            pass
    assert delivery.budget.is_unused


def test_small_answers_do_not_count() -> None:
    delivery, call = Delivery(LIMITS), FakeCall()
    assert delivery.count(call.call, "a", SMALL) is SMALL
    with delivery.count_answer("a", SMALL) as data:
        assert data is SMALL
        assert delivery.budget.is_unused
    assert not call._callbacks
