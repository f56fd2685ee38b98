"""That the engine has every operation, and hands on what is the backend's."""

from __future__ import annotations

import inspect
from contextlib import suppress

import pytest

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_store.backends.engine import StoreEngine
from antiphon_store.engine.facade import RowEngine
from antiphon_store.testing.calls import CALLS, TENANT, atom_of
from tests.support.rows import SpiedRows


def test_every_operation_takes_what_the_protocol_says(engine: RowEngine) -> None:
    names = [name for name, _ in inspect.getmembers(StoreEngine, inspect.isfunction) if not name.startswith("_")]
    assert len(names) > 30
    for name in names:
        expected = list(inspect.signature(getattr(StoreEngine, name)).parameters)[1:]
        assert list(inspect.signature(getattr(engine, name)).parameters) == expected, name


@pytest.mark.parametrize("call", CALLS)
async def test_a_closed_backend_answers_nothing(engine: RowEngine, call: str) -> None:
    await engine.close()
    with pytest.raises(StoreUnavailable):
        await CALLS[call](engine)


async def test_an_operation_touches_its_own_tenant_only(engine: RowEngine, rows: SpiedRows) -> None:
    for call in CALLS.values():
        with suppress(AntiphonError):  # what they answer is told elsewhere
            await call(engine)
    assert {partition.tenant for partition, _ in rows.programs} == {TENANT}
    assert {atom_of(call) for call in CALLS} <= set(dir(engine))


def test_its_durability_is_that_of_the_backend(engine: RowEngine, rows: SpiedRows) -> None:
    assert engine.durability is rows.durability
