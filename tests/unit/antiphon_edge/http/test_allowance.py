from __future__ import annotations

from antiphon_edge.http.allowance import Allowance, Rate


class Time:
    s = 100.0

    def __call__(self) -> float:
        return self.s


def taken(allowance: Allowance, tries: int) -> int:
    return sum(allowance.take() for _ in range(tries))


def test_a_burst_is_allowed_at_once_and_then_the_rate() -> None:
    now = Time()
    allowance = Allowance(Rate(burst=3, per_s=2), now)
    assert taken(allowance, 10) == 3
    now.s += 0.5
    assert taken(allowance, 10) == 1
    now.s += 1
    assert taken(allowance, 10) == 2


def test_an_allowance_holds_no_more_than_a_burst() -> None:
    now = Time()
    allowance = Allowance(Rate(burst=3, per_s=2), now)
    now.s += 1_000
    assert taken(allowance, 10) == 3
    now.s += 1_000
    assert taken(allowance, 10) == 3
