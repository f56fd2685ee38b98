"""Every engine against memory: any sequence of operations has the same answers and errors.

Once with records, leases and turns only, so that a sequence has more of them, and once with lineage on top. Jobs:
test_jobs_model.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from antiphon_core.clock import Clock
from antiphon_core.ports.store import ResponseStore
from antiphon_store.service import StoreService
from antiphon_store.testing.lineage_model import LineageMachine
from antiphon_store.testing.model import StoreMachine, against_memory
from tests.contract.store.conftest import open_pair, title_of
from tests.contract.store.implementations import ENGINES, Engine
from tests.support.volume import volume


def opener(engine: Engine) -> Callable[[Clock], AbstractAsyncContextManager[ResponseStore]]:
    @asynccontextmanager
    async def open_store(clock: Clock) -> AsyncIterator[ResponseStore]:
        with TemporaryDirectory() as folder:
            async with AsyncExitStack() as stack:
                backend, _ = await open_pair(stack, engine.open_pair(clock, Path(folder)))
                yield StoreService(backend)

    return open_store


SEQUENCES = volume(20, 400)

for _name, _engine in ENGINES.items():
    if _name != "memory":
        _open, _title = opener(_engine), title_of(_name)
        globals()[f"Test{_title}AgainstMemory"] = against_memory(StoreMachine, _open, sequences=SEQUENCES)
        globals()[f"Test{_title}LineageAgainstMemory"] = against_memory(LineageMachine, _open, sequences=SEQUENCES)
