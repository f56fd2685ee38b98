"""Every operation ends with the backend, keeps to its tenant, and says what it promises."""

from __future__ import annotations

from contextlib import suppress

import pytest

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_core.ports.jobs import DISPATCH_TENANT
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.testing.atoms import ATOMS
from antiphon_store.testing.calls import CALLS, TENANT, atom_of
from tests.support.rows import SpiedRows


@pytest.mark.parametrize("call", CALLS)
async def test_a_closed_backend_answers_nothing(engine: StoreEngine, call: str) -> None:
    await engine.close()
    with pytest.raises(StoreUnavailable):
        await CALLS[call](engine)


async def test_an_operation_touches_its_own_tenant_only(engine: StoreEngine, rows: SpiedRows) -> None:
    for call in CALLS.values():
        with suppress(AntiphonError):  # what they answer is told elsewhere
            await call(engine)
    assert {partition.tenant for partition, _ in rows.programs} == {TENANT, DISPATCH_TENANT}  # which has the tickets
    assert {atom_of(call) for call in CALLS} <= set(dir(engine))


def test_its_durability_is_that_of_the_backend(engine: StoreEngine, rows: SpiedRows) -> None:
    assert engine.durability is rows.durability


@pytest.mark.parametrize("name", ATOMS)
def test_every_operation_says_what_it_promises(name: str) -> None:
    assert getattr(StoreEngine, name).__doc__
