from __future__ import annotations

import pytest

from antiphon_core.byte_budget import ByteBudget, Tally
from antiphon_core.errors import ChainTooLong
from antiphon_edge.websocket.local_histories import LocalHistories


def test_history_is_kept_until_it_is_forgotten() -> None:
    histories = LocalHistories()
    histories.remember("a", b"[1]")
    assert histories.get("a") == b"[1]"
    histories.forget("a")
    histories.forget("a")
    histories.forget(None)
    assert (histories.get("a"), histories.get("b"), histories.get(None)) == (None, None, None)


def test_least_recently_used_history_is_evicted_first() -> None:
    histories = LocalHistories(items_max=2)
    histories.remember("a", b"[1]")
    histories.remember("b", b"[2]")
    assert histories.get("a") == b"[1]"
    histories.remember("c", b"[3]")
    assert (histories.get("a"), histories.get("b"), histories.get("c")) == (b"[1]", None, b"[3]")


def test_histories_stay_within_their_byte_limit() -> None:
    histories = LocalHistories(bytes_max=10)
    histories.remember("a", b"x" * 6)
    histories.remember("a", b"x" * 4)  # replaces the first one: 4 bytes, not 10
    histories.remember("b", b"y" * 6)
    assert (histories.get("a"), histories.get("b")) == (b"x" * 4, b"y" * 6)
    histories.remember("c", b"z")
    assert (histories.get("a"), histories.get("b"), histories.get("c")) == (None, b"y" * 6, b"z")


def test_history_is_not_kept_without_room_in_the_process() -> None:
    budget = ByteBudget("histories", total=10)
    with Tally(budget, "t") as tally:
        histories = LocalHistories(tally, bytes_max=8)
        histories.remember("a", b"x" * 5)
        histories.remember("b", b"y" * 5)  # evicts the first one
        assert (histories.get("a"), histories.get("b"), budget.held_bytes) == (None, b"y" * 5, 5)
        with Tally(budget, "u") as other:
            other.add(5)
            histories.remember("c", b"z" * 3)
            assert (histories.get("b"), histories.get("c"), budget.held_bytes) == (b"y" * 5, None, 10)
        histories.remember("c", b"z" * 3)
        assert (histories.get("c"), budget.held_bytes) == (b"z" * 3, 8)
    assert budget.held_bytes == 0


def test_history_over_the_limit_is_rejected_when_it_is_continued() -> None:
    histories = LocalHistories(bytes_max=10)
    histories.remember("a", b"x" * 5)
    histories.remember("b", b"y" * 11)
    assert histories.get("a") == b"x" * 5
    with pytest.raises(ChainTooLong, match="'b' is over the limit of 10 bytes"):
        histories.get("b")
    histories.forget("b")
    assert histories.get("b") is None


def test_lane_forgets_only_its_own_histories() -> None:
    histories = LocalHistories()
    histories.remember("a", b"[1]", lane="x")
    histories.forget("a", lane="y")
    histories.forget("a")
    assert histories.get("a") == b"[1]"
    histories.forget("a", lane="x")
    assert histories.get("a") is None
