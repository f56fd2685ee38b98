"""That keys are kept by the file; all else is the kit's: tests/contract/store/test_suites.py."""

from __future__ import annotations

from pathlib import Path

from antiphon_core.clock import ManualClock
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.testing.idempotency import keyed
from antiphon_store.testing.subject import draft


async def test_a_claim_survives_a_restart(path: Path, clock: ManualClock) -> None:
    first = draft()
    for asked, running in ((first, None), (draft(), first.id)):
        backend = SqliteBackend(path, clock=clock)
        await backend.open()
        start = await backend.begin_turn_once("t", keyed(asked), claim_ttl_ms=10)
        assert start.running_response_id == running
        await backend.close()
