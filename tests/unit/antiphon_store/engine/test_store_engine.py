"""Every operation ends with the backend, keeps to its tenant, and says what it promises."""

from __future__ import annotations

from contextlib import suppress

import pytest

from antiphon_core.errors import AntiphonError, ItemNotFound, StoreUnavailable
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.jobs import DISPATCH_TENANT
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.testing.atoms import ATOMS
from antiphon_store.testing.calls import CALLS, TENANT, atom_of
from antiphon_store.testing.conversations import array, names_in, new_id
from antiphon_store.testing.subject import draft
from antiphon_store.values import Addition, Founding
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


async def test_only_an_item_of_the_context_is_taken_out(engine: StoreEngine) -> None:
    conversation_id = new_id()
    first = Addition(array("a", "b"), "d", "s")
    await engine.create_conversation(TENANT, conversation_id, Founding(b"{}", "o", "i", first))
    for _ in range(2):
        await engine.remove_item(TENANT, conversation_id, "a")
    assert names_in(await engine.conversation_items(TENANT, conversation_id)) == ["b"]
    with pytest.raises(ItemNotFound):
        await engine.remove_item(TENANT, conversation_id, "z")


async def test_a_log_is_read_in_the_tree_of_its_response(engine: StoreEngine) -> None:
    response_id = draft().id
    await engine.append_events(TENANT, EventAppend(response_id, 0, 1, b"data: 1\n\n"), fence=None, ttl_ms=1000)
    await engine.append_events(TENANT, EventAppend(response_id, 1, 1, b"data: 2\n\n"), fence=None, ttl_ms=1000)
    page = await engine.read_log(TENANT, response_id, position=1, max_bytes=1)
    assert [batch.frames for batch in page.batches] == [b"data: 2\n\n"]
