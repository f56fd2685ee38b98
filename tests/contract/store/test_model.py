"""Every engine against memory: any sequence of operations has the same answers and errors.

With what the first machine does (records, leases, turns), and with lineage on top. Jobs: test_jobs_model.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings

from antiphon_core.clock import Clock
from antiphon_core.ports.store import ResponseStore
from antiphon_store.service import StoreService
from antiphon_store.testing import lineage_model, model
from antiphon_store.testing.topics import Capability
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


for _name, _engine in ENGINES.items():
    if _name != "memory" and Capability.UNTAGGED_SESSIONS not in _engine.lacks:
        for _kind, _machine in (("", model.machine), ("Lineage", lineage_model.machine)):
            _made = _machine(opener(_engine)).TestCase
            _made.settings = settings(_made.settings, max_examples=volume(20, 400))
            globals()[f"Test{title_of(_name)}{_kind}AgainstMemory"] = _made
