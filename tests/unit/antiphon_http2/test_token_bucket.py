"""The token bucket."""

from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_http2.token_bucket import TokenBucket


def test_bucket_is_empty_beyond_its_items_until_they_have_come_back() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, 2, clock.monotonic)
    bucket.take(10)
    assert not bucket.is_empty
    bucket.take(4)
    assert bucket.is_empty
    clock.advance(1.0)
    assert bucket.is_empty
    clock.advance(1.0)
    assert not bucket.is_empty


def test_bucket_holds_no_more_than_its_maximum() -> None:
    clock = ManualClock()
    bucket = TokenBucket(10, 2, clock.monotonic)
    bucket.give(5)
    clock.advance(1_000.0)
    bucket.take(11)
    assert not bucket.is_empty  # a second of the time before
    bucket.take(bucket.items_max + 1)
    assert bucket.is_empty
