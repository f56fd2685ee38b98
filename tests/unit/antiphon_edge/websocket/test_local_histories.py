from __future__ import annotations

import pytest

from antiphon_core.errors import ChainTooLong
from antiphon_edge.websocket.local_histories import LocalHistories


def test_what_was_remembered_is_known_until_it_is_forgotten() -> None:
    histories = LocalHistories()
    histories.remember("a", b"[1]")
    assert histories.get("a") == b"[1]"
    histories.forget("a")
    histories.forget("a")
    histories.forget(None)
    assert (histories.get("a"), histories.get("b"), histories.get(None)) == (None, None, None)


def test_the_one_that_was_not_used_for_longest_goes_first() -> None:
    histories = LocalHistories(items_max=2)
    histories.remember("a", b"[1]")
    histories.remember("b", b"[2]")
    assert histories.get("a") == b"[1]"
    histories.remember("c", b"[3]")
    assert (histories.get("a"), histories.get("b"), histories.get("c")) == (b"[1]", None, b"[3]")


def test_there_are_never_more_bytes_than_allowed() -> None:
    histories = LocalHistories(bytes_max=10)
    histories.remember("a", b"x" * 6)
    histories.remember("a", b"x" * 4)  # in its own place: 4 bytes, not 10
    histories.remember("b", b"y" * 6)
    assert (histories.get("a"), histories.get("b")) == (b"x" * 4, b"y" * 6)
    histories.remember("c", b"z")
    assert (histories.get("a"), histories.get("b"), histories.get("c")) == (None, b"y" * 6, b"z")


def test_one_that_is_too_large_says_so_when_it_is_continued() -> None:
    histories = LocalHistories(bytes_max=10)
    histories.remember("a", b"x" * 5)
    histories.remember("b", b"y" * 11)
    assert histories.get("a") == b"x" * 5
    with pytest.raises(ChainTooLong, match="'b' is over the limit of 10 bytes"):
        histories.get("b")
    histories.forget("b")
    assert histories.get("b") is None


def test_a_lane_forgets_only_what_it_made_itself() -> None:
    histories = LocalHistories()
    histories.remember("a", b"[1]", lane="x")
    histories.forget("a", lane="y")
    histories.forget("a")
    assert histories.get("a") == b"[1]"
    histories.forget("a", lane="x")
    assert histories.get("a") is None
