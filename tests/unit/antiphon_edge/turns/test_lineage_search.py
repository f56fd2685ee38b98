from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import StoreUnavailable
from antiphon_core.ports.store import History, TurnRequest, TurnStart
from antiphon_core.telemetry import metrics
from antiphon_edge.turns.lineage_search import LineageSearch, RememberedLineages

KEYS = (b"1", b"2")


class Store:
    """Answers `begin_turn` with a lineage, an error, or never."""

    def __init__(self, answer: bytes | Exception | None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, TurnRequest]] = []

    async def begin_turn(self, tenant: str, request: TurnRequest) -> TurnStart:
        self.asked.append((tenant, request))
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return TurnStart(History(), found_lineage=self.answer or b"")


def search_in(answer: bytes | Exception | None, clock: ManualClock | None = None) -> tuple[LineageSearch, Store]:
    store: Any = Store(answer)
    return LineageSearch(store, RememberedLineages(clock=clock or ManualClock()), wait_s=0.0), store


@pytest.mark.parametrize(
    ("answer", "found", "outcome"),
    [
        (b"lineage", b"lineage", "found"),
        (b"", b"", "absent"),
        (StoreUnavailable("down"), b"", "failed"),
        (None, b"", "failed"),
    ],
)
async def test_a_search_in_the_store_never_fails_a_turn(
    answer: bytes | Exception | None, found: bytes, outcome: str
) -> None:
    before = metrics.RECOVERED_LINEAGES.of(outcome).value
    search, store = search_in(answer)
    begun = search.begin("acme", KEYS, is_stored=True)
    assert begun is not None
    if answer is not None:
        await asyncio.wait([begun])
    assert await search.end(begun) == found
    begun.cancel()
    assert store.asked == [("acme", TurnRequest(lineage_keys=KEYS))]
    assert metrics.RECOVERED_LINEAGES.of(outcome).value == before + 1


async def test_a_turn_that_is_not_stored_asks_no_store() -> None:
    remembered = RememberedLineages(clock=ManualClock())
    remembered.keep(b"2", b"lineage")
    store: Any = Store(b"another")
    search = LineageSearch(store, remembered)
    assert await search.end(search.begin("acme", KEYS, is_stored=False)) == b"lineage"
    assert not store.asked


def test_a_remembered_lineage_is_forgotten_in_time() -> None:
    clock = ManualClock()
    remembered = RememberedLineages(clock=clock, ttl_s=10)
    remembered.keep(b"1", b"old")
    clock.advance(6)
    remembered.keep(b"2", b"new")
    assert remembered.find(KEYS) == b"old"
    clock.advance(5)
    assert remembered.find(KEYS) == b"new"
    assert remembered.find([b"1"]) == b""


def test_remembered_lineages_have_bounded_bytes() -> None:
    remembered = RememberedLineages(clock=ManualClock(), bytes_max=3_000)
    for number in range(4):
        remembered.keep(b"%d" % number, b"x" * 1_000)
    remembered.keep(b"3", b"y" * 1_000)
    assert [remembered.find([b"%d" % number])[:1] for number in range(4)] == [b"", b"", b"x", b"y"]


@pytest.mark.parametrize(("ttl_s", "key", "lineage"), [(0, b"1", b"l"), (10, b"", b"l"), (10, b"1", b"")])
def test_nothing_is_remembered_without_key_lineage_or_time(ttl_s: float, key: bytes, lineage: bytes) -> None:
    remembered = RememberedLineages(clock=ManualClock(), ttl_s=ttl_s)
    remembered.keep(key, lineage)
    assert remembered.find([key, b"1"]) == b""
