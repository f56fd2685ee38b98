from __future__ import annotations

from typing import Any

import pytest

from antiphon_core import limits
from antiphon_core.errors import ChainTooLong
from antiphon_core.jsons import loads
from antiphon_store.backends.base import Write
from antiphon_store.backends.bounds import ChainBounds
from antiphon_store.backends.postgres import rows
from antiphon_store.backends.postgres.contexts import context_of, removed_of
from antiphon_store.testing.lineage import joined
from antiphon_store.testing.subject import draft

RECORD = draft()
WHOLE = joined([RECORD])


def turns(size_bytes: int = len(WHOLE)) -> list[list[Any]]:
    given = rows.write_parameters(Write(RECORD))
    return [[1, size_bytes, 7 << 24, RECORD.id, given["items_crc"], given["input_bytes"], given["items"]]]


def bounds(max_bytes: int) -> ChainBounds:
    return ChainBounds("the session", 10, max_bytes)


def test_without_removed_items_it_is_the_history() -> None:
    history = context_of(turns(), RECORD.id, removed_of(None), bounds(len(WHOLE)))
    assert (history.items, history.head_id) == (WHOLE, RECORD.id)
    with pytest.raises(ChainTooLong, match=RECORD.id):
        context_of(turns(), RECORD.id, frozenset(), bounds(len(WHOLE) - 1))


def test_only_what_is_left_is_bounded() -> None:
    everything = ids()
    history = context_of(turns(), RECORD.id, everything, bounds(2))
    assert (history.items, history.depth) == (b"[]", 1)
    with pytest.raises(ChainTooLong, match="the session"):
        context_of(turns(), RECORD.id, frozenset({"another"}), bounds(2))
    with pytest.raises(ChainTooLong, match=str(limits.CHAIN_BYTES_MAX)):
        context_of(turns(limits.CHAIN_BYTES_MAX + 1), RECORD.id, everything, bounds(2))


def test_a_session_without_a_head_continues_nothing() -> None:
    assert context_of([], "", frozenset({"a"}), bounds(2)).depth == 0


def test_ids_of_items_may_be_any_text() -> None:
    assert removed_of(["ü\0".encode()]) == {"ü\0"}


def ids() -> frozenset[str]:
    return frozenset(item["id"] for item in loads(WHOLE))
