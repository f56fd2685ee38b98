"""An opened backend on the run's shared server, and a client to look behind it."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from hashlib import sha1

import pytest
import redis

from antiphon_core.clock import ManualClock
from antiphon_store.backends.redis import connection, link, scripts
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.backends.redis.scripts import Script
from tests.support.redis_servers import backend_at, shared_redis


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers are there: on a busy machine an answer takes as long as it takes."""
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
async def backend(clock: ManualClock) -> AsyncIterator[RedisBackend]:
    backend = backend_at(shared_redis().url, clock=clock)
    await backend.open()
    yield backend
    await backend.close()


Shrink = Callable[..., None]


@pytest.fixture
def shrink(monkeypatch: pytest.MonkeyPatch) -> Shrink:
    """`shrink("SWEEP", LOOKS_PER_SCRIPT=5)`: a script with smaller bounds than it has."""

    def shrink(name: str, **bounds: int) -> None:
        script: Script = getattr(scripts, name)
        text = script.text
        for bound, value in bounds.items():
            text, found = re.subn(rf"(?m)^local {bound} = \d+", f"local {bound} = {value}", text)
            assert found == 1
        sha = sha1(text.encode(), usedforsecurity=False).hexdigest()
        monkeypatch.setattr(scripts, name, replace(script, text=text, sha=sha))

    return shrink


@pytest.fixture
def server() -> Iterator[redis.Redis]:
    with shared_redis().client() as client:
        yield client
