"""Two backends on one SQLite file: their writes are serialized, and neither reads half of the other's."""

from __future__ import annotations

import asyncio
from pathlib import Path

from antiphon_core.ports.store import TurnCommit
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.rows.backend import Durability
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft, new_session_id, turn_in


async def test_turns_of_two_backends_in_one_session_are_serialized(tmp_path: Path) -> None:
    backends = [SqliteRows(tmp_path / "store.db", durability=Durability.PROCESS) for _ in range(2)]
    for backend in backends:
        await backend.open()
    stores = [StoreService(backend) for backend in backends]
    session_id = new_session_id()
    texts: list[str] = []

    async def take_turns(number: int) -> None:
        for turn in range(10):
            request = turn_in(session_id, holder=f"holder-{number}", wait_ms=20_000)
            start = await stores[number].begin_turn("t", request)
            assert start.lease is not None
            assert start.history.depth == len(texts)
            assert [text for text in texts if text.encode() not in start.history.items] == []
            texts.append(f"turn {turn} of {number}")
            parent = await stores[number].get("t", start.history.head_id) if start.history.head_id else None
            record = draft(parent, session_id=session_id, text=texts[-1])
            await stores[number].commit_turn("t", TurnCommit(record, start.lease.fence))

    await asyncio.wait_for(asyncio.gather(take_turns(0), take_turns(1)), 120)
    assert len(texts) == 20
    for backend in backends:
        await backend.close()
