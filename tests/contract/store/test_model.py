"""Compares every backend with memory: any sequence of operations must have equal answers and errors.

The first machine covers records, leases and turns, the second adds lineage. Jobs: test_jobs_model.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import TestCase

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine

from antiphon_core.clock import Clock
from antiphon_core.ports.store import ResponseStore
from antiphon_store.service import StoreService
from antiphon_store.testing import lineage_model, model
from tests.contract.store.conftest import open_pair, title_of
from tests.contract.store.implementations import BACKENDS, Backend
from tests.support.volume import volume


def opener(backend: Backend) -> Callable[[Clock], AbstractAsyncContextManager[ResponseStore]]:
    @asynccontextmanager
    async def open_store(clock: Clock) -> AsyncIterator[ResponseStore]:
        with TemporaryDirectory() as folder:
            async with AsyncExitStack() as stack:
                rows, _ = await open_pair(stack, backend.open_pair(clock, Path(folder)))
                yield StoreService(rows)

    return open_store


def case_of(machine: type[RuleBasedStateMachine]) -> type[TestCase]:
    made: type[TestCase] = machine.TestCase
    made.settings = settings(made.settings, max_examples=volume(6, 400))  # type: ignore[attr-defined]
    return made


for _name, _backend in BACKENDS.items():
    if _name != "memory":
        _open = opener(_backend)
        globals()[f"Test{title_of(_name)}AgainstMemory"] = case_of(model.machine(_open))
        globals()[f"Test{title_of(_name)}LineageAgainstMemory"] = case_of(lineage_model.machine(_open))
