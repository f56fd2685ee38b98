from __future__ import annotations

from contextlib import suppress

import pytest

from antiphon_core.errors import AntiphonError
from antiphon_core.ports.store import TurnRequest
from antiphon_store.service import StoreService
from antiphon_store.testing.calls import CALLS, operation_of
from antiphon_store.testing.operations import LIFE, OPERATIONS, READS
from tests.support.rows import SpiedRows


async def test_an_operation_that_counts_as_reading_changes_nothing() -> None:
    rows = SpiedRows()
    store = StoreService(rows)
    await store.open()
    for call in CALLS.values():  # so that there is something to change
        with suppress(AntiphonError):
            await call(store)
    rows.forget_calls()
    for name, call in CALLS.items():
        if operation_of(name) in READS:
            with suppress(AntiphonError):
                await call(store)
    assert not any(program.changes for _, program in rows.programs)


def test_every_listed_read_is_an_operation() -> None:
    assert set(OPERATIONS) >= READS


def test_open_and_close_are_not_operations() -> None:
    assert LIFE.isdisjoint(OPERATIONS)


def test_the_kit_calls_every_operation() -> None:
    assert {operation_of(call) for call in CALLS} == set(OPERATIONS)


@pytest.mark.parametrize(
    ("request_", "writes"),
    [
        (TurnRequest(), False),
        (TurnRequest(session_id="s", holder="h"), True),
        (TurnRequest(idempotency_key="k", fingerprint=bytes(32), response_id="resp_1"), True),
    ],
)
def test_a_turn_writes_when_it_takes_a_lease_or_claims_a_key(request_: TurnRequest, writes: bool) -> None:
    assert OPERATIONS["begin_turn"].writes(("t", request_), {}) is writes
    assert OPERATIONS["begin_turn"].writes(("t",), {"request": request_}) is writes
