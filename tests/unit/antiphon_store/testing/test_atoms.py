from __future__ import annotations

from contextlib import suppress

import pytest

from antiphon_core.errors import AntiphonError
from antiphon_core.ports.store import TurnRequest
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.testing.atoms import ATOMS, LIFE, READS
from antiphon_store.testing.calls import CALLS, atom_of
from tests.support.rows import SpiedRows


async def test_an_operation_that_counts_as_reading_changes_nothing() -> None:
    rows = SpiedRows()
    engine = StoreEngine(rows)
    await engine.open()
    for call in CALLS.values():  # so that there is something to change
        with suppress(AntiphonError):
            await call(engine)
    rows.forget_calls()
    for name, call in CALLS.items():
        if atom_of(name) in READS:
            with suppress(AntiphonError):
                await call(engine)
    assert not any(program.changes for _, program in rows.programs)


def test_every_operation_that_counts_as_reading_is_one() -> None:
    assert set(ATOMS) >= READS


def test_the_life_of_an_engine_is_no_atom() -> None:
    assert LIFE.isdisjoint(ATOMS)


def test_the_kit_calls_every_atom() -> None:
    assert {atom_of(call) for call in CALLS} == set(ATOMS)


@pytest.mark.parametrize(
    ("request_", "writes"), [(TurnRequest(), False), (TurnRequest(session_id="s", holder="h"), True)]
)
def test_a_turn_writes_when_it_takes_a_lease(request_: TurnRequest, writes: bool) -> None:
    assert ATOMS["begin_turn"].writes(("t", request_), {}) is writes
    assert ATOMS["begin_turn"].writes(("t",), {"request": request_}) is writes
