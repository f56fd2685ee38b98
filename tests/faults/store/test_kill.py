"""kill -9 while writing: every acknowledged response is there afterwards, and every chain is whole."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.service import StoreService

ACKNOWLEDGED = 400
TENANT = "t"

# Writes lines of turns with several writers and prints each id after it was acknowledged.
WRITER = f"""
import asyncio, sys
from pathlib import Path
from antiphon_core.ports.store import TurnCommit
from antiphon_store.backends.sqlite.backend import SqliteBackend
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft

async def write(store):
    parent = None
    while True:
        record = draft(parent)
        await store.commit_turn("{TENANT}", TurnCommit(record))
        print(record.id, flush=True)
        parent = record

async def main():
    backend = SqliteBackend(Path(sys.argv[1]))
    await backend.open()
    await asyncio.gather(*(write(StoreService(backend)) for _ in range(8)))

asyncio.run(main())
"""


def write_and_kill(path: Path) -> list[str]:
    """The ids that a process acknowledged before it was killed."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, env=environ
    ) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().strip() for _ in range(ACKNOWLEDGED)]
        process.send_signal(signal.SIGKILL)
        return acknowledged + [line.strip() for line in process.stdout if line.endswith("\n")]


@pytest.mark.parametrize("round_", range(2))
async def test_acknowledged_writes_survive_kill_9(tmp_path: Path, round_: int) -> None:
    path = tmp_path / f"store-{round_}.db"
    acknowledged = await asyncio.to_thread(write_and_kill, path)
    assert len(acknowledged) >= ACKNOWLEDGED
    backend = SqliteBackend(path)
    await backend.open()
    store = StoreService(backend)
    for response_id in acknowledged:
        record = await store.get(TENANT, response_id)
        assert record.version == 1
    longest = acknowledged[-1]
    chain = await store.chain(TENANT, longest)
    assert [each.depth for each in chain] == list(range(len(chain)))
    await backend.close()
