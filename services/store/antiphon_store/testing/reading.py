"""A backend that may only be read. The fixtures are `writable`, empty, and `readonly`: the same data, both opened."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from collections.abc import Mapping

import pytest

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_core.ports.store import TurnRequest
from antiphon_store.backends.engine import StoreEngine
from antiphon_store.testing.calls import CALLS, RECORD, SESSION, TENANT, Call, atom_of, has
from antiphon_store.wrappers.atoms import READS

TURN_OF_A_SESSION = "begin_turn in a session"
READING = {name for name in CALLS if atom_of(name) in {*READS, "begin_turn"}} - {TURN_OF_A_SESSION}
FILLING = ("put", "acquire_lease", "append_events", "enqueue_job", "create_conversation", "add_items")


async def answers(backend: StoreEngine, calls: Mapping[str, Call]) -> dict[str, object]:
    """What each call came to: its answer, or the class of its error."""
    found: dict[str, object] = {}
    for name, call in calls.items():
        try:
            found[name] = await call(backend)
        except AntiphonError as error:
            found[name] = type(error)
    return found


class ReadOnlySuite:
    @pytest.fixture(autouse=True)
    async def filled(self, writable: StoreEngine) -> None:
        """Something of every topic, for each reading atom to find."""
        for name in FILLING:
            if has(writable, name):
                await CALLS[name](writable)

    async def test_reads_pass(self, writable: StoreEngine, readonly: StoreEngine) -> None:
        reading = {name: call for name, call in CALLS.items() if name in READING and has(writable, name)}
        expected = await answers(writable, reading)
        assert StoreUnavailable not in expected.values()
        assert await answers(readonly, reading) == expected

    async def test_writes_are_refused_and_change_nothing(self, writable: StoreEngine, readonly: StoreEngine) -> None:
        reading = {name: call for name, call in CALLS.items() if name in READING and has(writable, name)}
        writing = {name: call for name, call in CALLS.items() if name not in READING and has(writable, name)}
        before = await answers(writable, reading)
        refused = await answers(readonly, writing)
        assert set(refused.values()) == {StoreUnavailable}
        assert await answers(writable, reading) == before

    async def test_the_refusal_says_what_to_do(self, readonly: StoreEngine) -> None:
        with pytest.raises(StoreUnavailable, match="read-only") as caught:
            await CALLS["put"](readonly)
        assert caught.value.facts["atom"] == "put"

    async def test_a_turn_without_a_session_begins(self, readonly: StoreEngine) -> None:
        start = await readonly.begin_turn(TENANT, TurnRequest(previous_response_id=RECORD.id))
        assert start.history.head_id == RECORD.id
        assert (await readonly.describe_session(TENANT, SESSION)).lease is not None
