"""Checks of the service about prompts; that prompts work is tested by tests/contract/store/test_suites.py."""

from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InvalidRequest
from antiphon_store.backends.registry import open_backend
from antiphon_store.service import StoreService

ID = "pmpt_" + "0" * 48


async def test_every_call_looks_at_its_arguments(clock: ManualClock) -> None:
    backend = open_backend("memory://", clock=clock)
    await backend.open()
    store = StoreService(backend)
    assert (await store.put_prompt("t", ID, 1, b"{}")).content == b"{}"
    for call in (
        store.put_prompt("t", "x", 1, b"{}"),
        store.get_prompt("t", ID, version=0),
        store.list_prompts(""),
        store.delete_prompt("t", "x"),
    ):
        with pytest.raises(InvalidRequest):
            await call
