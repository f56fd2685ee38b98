from __future__ import annotations

import pytest

from antiphon_core.byte_budget import ByteBudget, Excess, Tally
from antiphon_core.errors import RequestRateExceeded, Unavailable


def test_bytes_beyond_the_share_or_the_total_are_rejected() -> None:
    budget = ByteBudget("bodies", total=15, share=10)
    assert budget.take("a", 10) is None
    assert budget.take("a", 1) is Excess.SHARE
    assert budget.take("b", 6) is Excess.TOTAL
    assert budget.take("b", 5) is None
    budget.give_back("a", 10)
    assert budget.take("b", 5) is None
    assert budget.held_bytes == 10


def test_without_fixed_shares_a_holder_gets_four_times_what_is_free() -> None:
    budget = ByteBudget("turns", total=100)
    assert [budget.take("a", 20) for _ in range(5)] == [None, None, None, None, Excess.SHARE]
    assert budget.take("b", 21) is Excess.TOTAL
    assert budget.take("b", 16) is None
    assert budget.take("b", 1) is Excess.SHARE
    assert budget.take("c", 4) is None


def test_tally_returns_its_bytes_when_its_block_ends() -> None:
    budget = ByteBudget("bodies", total=15, share=10)
    with Tally(budget, "a") as tally:
        tally.add(4)
        tally.add(4)
        with pytest.raises(RequestRateExceeded):
            tally.add(4)
        with Tally(budget, "b") as other, pytest.raises(Unavailable):
            other.add(8)
        assert budget.held_bytes == 8
        tally.shrink_to(5)
        assert budget.held_bytes == 5
    assert budget.held_bytes == 0
