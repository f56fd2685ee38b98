"""An opened backend on the run's shared server, and a client that reads the server directly."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from antiphon_core.clock import ManualClock
from antiphon_store.backends.redis import connection, link
from antiphon_store.service import StoreService
from tests.support.redis_servers import redis_rows, shared_redis


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raises timeouts, because a running server answers late on a busy machine."""
    monkeypatch.setitem(connection.OPTIONS, "socket_connect_timeout", 30.0)
    monkeypatch.setitem(connection.OPTIONS, "socket_timeout", 30.0)
    monkeypatch.setattr(link, "READY_TIMEOUT_S", 30.0)


@pytest.fixture
def tenant() -> str:
    return f"tenant-{secrets.token_hex(4)}"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def backend(clock: ManualClock) -> AsyncIterator[StoreService]:
    backend = StoreService(redis_rows(shared_redis().url, clock=clock))
    await backend.open()
    yield backend
    await backend.close()


@pytest.fixture
def server() -> Iterator[redis.Redis]:
    with shared_redis().client() as client:
        yield client
