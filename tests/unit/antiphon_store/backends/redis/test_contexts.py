"""Cutting a context, and naming what was seen. Against scripts: test_turns.py, test_conversations.py."""

from __future__ import annotations

import pytest

from antiphon_core import limits
from antiphon_core.errors import ChainTooLong, InternalError
from antiphon_store.backends import packing
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.redis.contexts import Look, context_arguments, look
from antiphon_store.testing.conversations import array
from antiphon_store.testing.subject import draft

BOUNDS = ChainBounds("conv", 10, 1000)
RECORD = draft()


def answer(items: bytes, *removed: bytes) -> list[object]:
    """What a script answers of a context of one node."""
    packed, input_bytes = packing.pack(items, b"[]")
    crc = packing.checksum(RECORD.id, input_bytes, packed)
    words = f"{RECORD.id} 1 0 1 1 completed 5 5 - - conv {len(items)} {input_bytes} {crc} 0"
    return [b"state", list(removed), RECORD.id.encode(), [words.encode()], [packed]]


def test_what_was_taken_out_is_left_away() -> None:
    seen = look(answer(array("a", "ü", "b"), "ü".encode(), b"gone"), BOUNDS)
    assert (seen.state, seen.history.items) == ("state", array("a", "b"))
    assert (seen.history.depth, seen.history.head_id) == (1, RECORD.id)


def test_what_is_left_is_bounded() -> None:
    exact = ChainBounds("conv", 10, len(array("a")))
    assert look(answer(array("a", "b"), b"b"), exact).history.items == array("a")
    with pytest.raises(ChainTooLong) as caught:
        look(answer(array("a", "b"), b"b"), ChainBounds("conv", 10, len(array("a")) - 1))
    assert caught.value.facts["id"] == "conv"


def test_bytes_stay_as_they_are_when_nothing_was_taken_out() -> None:
    spacious = b'[{"id":"a",   "content":"a"}]'
    assert look(answer(spacious), BOUNDS).history.items == spacious


def test_a_session_without_a_head_has_no_items() -> None:
    seen = look([b"state", [b"a"], b"", [], []], BOUNDS)
    assert (seen.history.items, seen.history.head_id) == (b"[]", None)


def test_damage_is_noticed() -> None:
    facts = answer(array("a"))
    facts[4] = [b'{"id":"forged"}']
    with pytest.raises(InternalError):
        look(facts, BOUNDS)


def test_bounds_and_state_travel_together() -> None:
    assert context_arguments(BOUNDS, Look()) == [10, 1000, limits.CHAIN_BYTES_MAX, ""]
    assert context_arguments(BOUNDS, Look("state"))[-1] == "state"
