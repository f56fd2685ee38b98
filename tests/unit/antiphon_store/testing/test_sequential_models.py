"""The models agree with the memory backend, asked one thing at a time. Concurrency: test_histories.py."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from antiphon_store.testing.histories import new_clients, new_keys
from antiphon_store.testing.sequential_models import LEASE, RESPONSE


@pytest.mark.parametrize("seed", range(20))
async def test_a_model_answers_as_the_store_does(clock: ManualClock, seed: int) -> None:
    backend = row_backend("memory://", clock=clock)
    await backend.open()
    (one, two), keys = new_clients([StoreService(backend)], "t", seed, 2), new_keys(1, 1)
    for number in range(200):
        await (one if number % 3 else two).act(keys[number % 2])
    states = {"response": RESPONSE.initial, "lease": LEASE.initial}
    for each in one.recorder.operations:
        model = {"response": RESPONSE, "lease": LEASE}[each.key[0]]
        states[each.key[0]], answer = model.apply(states[each.key[0]], each)
        assert answer == each.answer, each
