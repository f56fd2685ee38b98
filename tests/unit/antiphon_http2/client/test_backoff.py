from __future__ import annotations

from antiphon_http2.client.backoff import Backoff


def middle(low: float, high: float) -> float:
    return (low + high) / 2


def failed_delays(backoff: Backoff, count: int) -> list[float]:
    """The delay after each of `count` failures in a row, to a millisecond."""
    delays = []
    for number in range(count):
        start_s = 100.0 * number
        backoff.note_failure(start_s)
        delays.append(next(ms for ms in range(10_000) if backoff.can_try(start_s + ms / 1000)) / 1000)
    return delays


def test_delays_grow_to_their_limit() -> None:
    assert failed_delays(Backoff(0.25, 1.0, middle), 5) == [0.25, 0.4, 0.64, 1.0, 1.0]


def test_first_attempt_need_not_wait() -> None:
    assert Backoff(0.25, 1.0, middle).can_try(0.0)


def test_a_success_ends_the_delay_and_resets_the_backoff() -> None:
    backoff = Backoff(0.25, 1.0, middle)
    failed_delays(backoff, 4)
    backoff.note_failure(1_000.0)
    backoff.note_success()
    assert backoff.can_try(1_000.0)
    assert failed_delays(backoff, 1) == [0.25]


def test_jitter_spreads_attempts_by_a_fifth() -> None:
    assert failed_delays(Backoff(0.25, 1.0, lambda low, _high: low), 1) == [0.2]
    assert failed_delays(Backoff(0.25, 1.0, lambda _low, high: high), 1) == [0.3]
