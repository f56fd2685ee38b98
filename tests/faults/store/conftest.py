"""A store with injected faults, over every backend, and a record of its answers."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio

from antiphon_core.clock import ManualClock
from antiphon_store.backends.postgres.backend import PostgresRows
from antiphon_store.backends.registry import row_backend
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.rows.backend import Durability, RowBackend
from antiphon_store.service import StoreService
from antiphon_store.testing.faulty import FaultyStore
from antiphon_store.testing.subject import Subject
from antiphon_store.testing.wrapper import Call, Wrapper
from tests.support.long_backend_timeouts import long_backend_timeouts
from tests.support.postgres_server import shared_postgres
from tests.support.redis_servers import redis_rows, shared_cluster, shared_redis

BACKENDS: dict[str, Callable[[ManualClock, Path], RowBackend]] = {
    "memory": lambda clock, _folder: row_backend("memory://", clock=clock),
    "sqlite": lambda clock, folder: SqliteRows(folder / "store.db", durability=Durability.PROCESS, clock=clock),
    "postgres": lambda clock, _: PostgresRows(shared_postgres().url, durability=Durability.PROCESS, clock=clock),
    "redis": lambda clock, _folder: redis_rows(shared_redis().url, clock=clock),
    "redis cluster": lambda clock, _folder: redis_rows(f"{shared_cluster().url}", clock=clock),
}


class AnswerRecorder(Wrapper):
    """Records all answers of a store, including those that reach no caller."""

    def __init__(self, inner: StoreService) -> None:
        super().__init__(inner)
        self.answers: list[tuple[str, Any]] = []

    async def around(self, call: Call) -> Any:
        answer = await call.run()
        self.answers.append((call.operation, answer))
        return answer

    def answers_of(self, operation: str) -> list[Any]:
        return [answer for name, answer in self.answers if name == operation]


@dataclass(slots=True)
class World:
    """A faulty store around a store that records its answers. The subject's peer is the store inside."""

    inner: StoreService
    clock: ManualClock
    recorder: AnswerRecorder = field(init=False)
    faulty: FaultyStore = field(init=False)
    subject: Subject = field(init=False)

    def __post_init__(self) -> None:
        self.recorder = AnswerRecorder(self.inner)
        self.faulty = FaultyStore(self.recorder)
        self.start_over()

    def start_over(self) -> None:
        """Continues with a new tenant, which has no data."""

        async def elapse(milliseconds: int) -> None:
            self.clock.advance(milliseconds / 1000)

        self.subject = Subject(store=self.faulty, peer=self.inner, elapse=elapse)

    @property
    def tenant(self) -> str:
        return self.subject.tenant

    @property
    def store(self) -> StoreService:
        return cast("StoreService", self.subject.store)

    @property
    def peer(self) -> StoreService:
        return cast("StoreService", self.subject.peer)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def tenant() -> str:
    """A tenant that no other test has."""
    return f"tenant-{secrets.token_hex(4)}"


@pytest.fixture
def long_timeouts() -> Iterator[None]:
    """Sets long timeouts of backends, for tests of other things than timeouts."""
    with long_backend_timeouts():
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=BACKENDS)
async def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[StoreService, ManualClock]]:
    """A backend, opened once for a module, and its clock, which only advances. Each test has its own tenant and runs in
    the event loop of its module."""
    with long_backend_timeouts():
        clock = ManualClock()
        store = StoreService(BACKENDS[request.param](clock, tmp_path_factory.mktemp("store")))
        await store.open()
        yield store, clock
        await store.close()


@pytest.fixture
def world(opened: tuple[StoreService, ManualClock]) -> World:
    return World(*opened)
