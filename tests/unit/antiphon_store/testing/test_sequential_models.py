"""The models agree with the memory backend, one call at a time. test_histories.py tests concurrent calls."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from antiphon_core.clock import ManualClock
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from antiphon_store.testing.histories import new_clients, new_keys
from antiphon_store.testing.linearizability import Operation
from antiphon_store.testing.sequential_models import LEASE, MODELS, RESPONSE


async def sequential_calls(clock: ManualClock, seed: int) -> list[Operation]:
    """The calls of two clients, one at a time."""
    backend = row_backend("memory://", clock=clock)
    await backend.open()
    (one, two), keys = new_clients([StoreService(backend)], "t", seed, 2), new_keys(1, 1)
    for number in range(200):
        await (one if number % 3 else two).act(keys[number % 2])
    return one.recorder.operations


@pytest.mark.parametrize("seed", range(20))
async def test_a_model_answers_as_the_store_does(clock: ManualClock, seed: int) -> None:
    states = {"response": RESPONSE.initial, "lease": LEASE.initial}
    for each in await sequential_calls(clock, seed):
        kind = each.key[0]
        states[kind], answer = MODELS[kind].apply(states[kind], each)
        assert answer == each.answer, each


@pytest.mark.parametrize("kind", MODELS)
async def test_a_passive_operation_changes_no_state_that_gives_its_answer(clock: ManualClock, kind: str) -> None:
    model, operations = MODELS[kind], [each for each in await sequential_calls(clock, 0) if each.key[0] == kind]
    states: list[Hashable] = [model.initial]
    for each in operations:
        states.append(model.apply(states[-1], each)[0])
    passive = [each for each in operations if model.is_passive(each)]
    assert {each.name for each in passive} >= {"response": {"get", "put"}, "lease": {"describe", "acquire"}}[kind]
    for each in passive:
        for state in states:
            after, answer = model.apply(state, each)
            assert answer != each.answer or after == state, (each, state)
