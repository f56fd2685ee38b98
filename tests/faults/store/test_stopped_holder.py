"""A process that holds leases is stopped (SIGSTOP) until they have expired, and continued: each write is rejected."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from antiphon_core.errors import NotFound
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import turn_in
from tests.support.postgres_server import shared_postgres
from tests.support.redis_servers import shared_cluster, shared_redis

SESSIONS = 100
TTL_MS = 1_500  # of each lease: long enough to take all leases on a busy machine
TAKEN = "taken"

# Takes a lease in each session, and reports it. After a line of input, writes under each and prints the outcomes.
HOLDER = f"""
import asyncio, sys
from antiphon_core.errors import AntiphonError
from antiphon_core.ports.store import TurnCommit
from antiphon_store.backends.registry import row_backend
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft, turn_in
from tests.support.long_backend_timeouts import long_backend_timeouts

async def write(store, tenant, lease):
    session_id = lease.fence.session_id
    record = draft(tag=session_id, session_id=session_id)
    try:
        await store.commit_turn(tenant, TurnCommit(record, lease.fence))
    except AntiphonError as error:
        return f"{{type(error).__name__}} {{record.id}}"
    return f"written {{record.id}}"

async def main(url, tenant):
    backend = row_backend(url, durability="memory" if url.startswith("redis") else "process")
    await backend.open()
    store = StoreService(backend)
    turns = [turn_in(f"conv_{{n:048}}", holder="stopped", lease_ttl_ms={TTL_MS}) for n in range({SESSIONS})]
    starts = await asyncio.gather(*(store.begin_turn(tenant, turn) for turn in turns))
    print("{TAKEN}", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(*await asyncio.gather(*(write(store, tenant, start.lease) for start in starts)), sep="\\n", flush=True)
    await backend.close()

with long_backend_timeouts():
    asyncio.run(main(*sys.argv[1:]))
"""

URLS: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: f"sqlite:///{folder / 'store.db'}",
    "postgres": lambda _folder: shared_postgres().url,
    "redis": lambda _folder: shared_redis().url,
    "redis cluster": lambda _folder: shared_cluster().url,
}


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return URLS[request.param](tmp_path)


@pytest.fixture
async def store(url: str, long_timeouts: None) -> AsyncIterator[StoreService]:
    backend = row_backend(url, durability="memory" if url.startswith("redis") else "process")
    await backend.open()
    yield StoreService(backend)
    await backend.close()


async def test_writes_of_a_holder_stopped_past_its_leases_are_rejected(
    store: StoreService, url: str, tenant: str
) -> None:
    """Another holder takes every second session meanwhile. The other sessions stay free."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = asyncio.subprocess.PIPE
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, url, tenant, stdin=pipe, stdout=pipe, env=environ
    )
    assert holder.stdout is not None
    assert (await holder.stdout.readline()).decode().strip() == TAKEN
    holder.send_signal(signal.SIGSTOP)
    await asyncio.sleep(TTL_MS / 1000)
    others = (
        store.begin_turn(tenant, turn_in(f"conv_{number:048}", holder="other")) for number in range(0, SESSIONS, 2)
    )
    assert {start.lease.fence.token for start in await asyncio.gather(*others) if start.lease} == {2}
    holder.send_signal(signal.SIGCONT)
    printed, _ = await holder.communicate(b"\n")
    outcomes = [line.split() for line in printed.decode().splitlines()]
    assert [outcome for outcome, _ in outcomes] == ["StaleFence"] * SESSIONS
    for number, (_, response_id) in enumerate(outcomes):
        with pytest.raises(NotFound):
            await store.get(tenant, response_id)
        session = await store.describe_session(tenant, f"conv_{number:048}")
        assert (session.head_id, session.last_fence) == (None, 1 if number % 2 else 2)
