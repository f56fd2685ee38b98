from __future__ import annotations

import pytest

from antiphon_core.errors import EngineFault
from antiphon_core.limits import ENGINE_IDLE_BYTES_MAX, ENGINE_IDLE_BYTES_PER_S
from antiphon_translator.engines.stream_budget import CHAR_BYTES, PIECE_CHARS, StreamBudget

HOUR_S = 3_600


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize(
    ("size_bytes", "per_s"),
    [(8, 1), (25, 10), (300, 10), (3_000, 5)],
    ids=["pings", "comments of a proxy", "empty deltas", "events of progress"],
)
def test_keep_alives_of_a_slow_server_pass_for_an_hour(clock: Clock, size_bytes: int, per_s: int) -> None:
    budget = StreamBudget("The server", clock)
    for number in range(HOUR_S * per_s):
        clock.now_s = number / per_s
        budget.note(size_bytes, 0)


def test_keep_alives_faster_than_the_rate_are_an_error_at_last(clock: Clock) -> None:
    budget = StreamBudget("The server", clock)
    with pytest.raises(EngineFault, match="The server sent 8 MiB without any content, faster than 32 KiB/s"):
        for second in range(HOUR_S):
            clock.now_s = second
            budget.note(2 * ENGINE_IDLE_BYTES_PER_S, 0)
    assert clock.now_s > ENGINE_IDLE_BYTES_MAX / ENGINE_IDLE_BYTES_PER_S / 2


@pytest.mark.parametrize("size_bytes", [250, 4_000, CHAR_BYTES * PIECE_CHARS])
def test_events_with_a_token_each_pass_at_any_speed(clock: Clock, size_bytes: int) -> None:
    budget = StreamBudget("The server", clock)
    for _ in range(100_000):
        budget.note(size_bytes, PIECE_CHARS + 1)


def test_padding_beyond_what_content_earns_is_an_error(clock: Clock) -> None:
    budget = StreamBudget("The server", clock)
    with pytest.raises(EngineFault):
        for _ in range(200):
            budget.note(100_000, PIECE_CHARS + 1)


def test_content_does_not_pay_for_later_bytes(clock: Clock) -> None:
    budget = StreamBudget("The server", clock)
    budget.note(0, 10**9)
    budget.note(ENGINE_IDLE_BYTES_MAX, 0)
    with pytest.raises(EngineFault):
        budget.note(1, 0)
