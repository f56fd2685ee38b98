"""Histories of concurrent clients: many clients make random calls on few responses and sessions, and every call is
recorded with the moments of its invocation and return. `linearizability` checks the answers.

Moments are numbers of a counter, not times: all clients of a history run in one event loop, where a counter orders
moments and two are never equal. The random choices are seeded; the scheduler decides which calls overlap.
"""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, ClassVar, Protocol, cast

import pytest

from antiphon_core import limits
from antiphon_core.errors import AntiphonError, ResponseNotFound, Timeout, Unavailable, VersionMismatch
from antiphon_core.jsons import dumps
from antiphon_core.ports.lineage import LineageStore
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Precondition, Record, ResponseStore, Status
from antiphon_store.testing.linearizability import UNKNOWN, Operation, find_violation
from antiphon_store.testing.sequential_models import MODELS
from antiphon_store.testing.subject import Subject, draft, new_session_id

CLIENTS = 16
RESPONSES, SESSIONS = 2, 1
STATUSES = (Status.IN_PROGRESS, Status.COMPLETED)
READS = frozenset({"get", "describe"})

Key = tuple[str, str]


class Store(ResponseStore, LineageStore, Protocol):
    """The methods that the clients of a history call."""


@dataclass(slots=True)
class Recorder:
    """The recorded operations of one history."""

    operations: list[Operation] = field(default_factory=list)
    _moments: count[int] = field(default_factory=count)

    async def record(
        self, key: Key, name: str, arguments: dict[str, Any], call: Awaitable[Any], answer_of: Callable[[Any], Any]
    ) -> Any:
        """Records the outcome of `call` as in the models: `answer_of` its result, or the class name of its error."""
        invoked = next(self._moments)
        try:
            answer = answer_of(await call)
        except (Unavailable, Timeout):
            answer = UNKNOWN
        except AntiphonError as error:
            answer = type(error).__name__
        if answer != UNKNOWN or name not in READS:  # a read without an answer proves nothing
            self.operations.append(Operation(key, name, arguments, invoked, next(self._moments), answer))
        return answer

    def require_linearizable(self) -> None:
        violation = find_violation(self.operations, MODELS)
        assert violation is None, str(violation)


@dataclass(slots=True)
class Client:
    """Makes one call at a time, with one store, often with a version or a token from an earlier answer."""

    name: str
    store: Store
    tenant: str
    recorder: Recorder
    dice: random.Random
    versions: dict[Key, int] = field(default_factory=dict)
    tokens: dict[Key, int] = field(default_factory=dict)
    content: str = ""
    _numbers: count[int] = field(default_factory=count)

    async def act(self, key: Key) -> Any:
        """Makes a random call on the object, and returns its answer."""
        methods = {
            "response": (self.put, self.put, self.get, self.get, self.update_status, self.delete),
            "lease": (self.acquire, self.acquire, self.renew, self.release, self.release, self.describe),
        }
        return await self.dice.choice(methods[key[0]])(key)

    # ---- Responses ----

    async def put(self, key: Key) -> Any:
        """Puts new content, or sometimes the last content again, as a retry does."""
        if not self.content or self.dice.random() < 0.7:
            self.content = f"{self.name}.{next(self._numbers)}"
        expected = self.dice.choice((None, 0, self.versions.get(key), self.versions.get(key)))
        status = self.dice.choice(STATUSES)
        record = Record(id=key[1], status=status, body=dumps({"content": self.content}))
        ask = self.store.put(self.tenant, record, precondition=_version(expected))
        arguments = {"status": status.value, "content": record.body.decode(), "expected": expected}
        return self._note_answer(
            key, await self.recorder.record(key, "put", arguments, ask, lambda stamp: stamp.version)
        )

    async def get(self, key: Key) -> Any:
        ask = self.store.get(self.tenant, key[1])
        answer = await self.recorder.record(key, "get", {}, ask, _content)
        self._note_answer(key, answer[0] if isinstance(answer, tuple) else 0)
        return answer

    async def update_status(self, key: Key) -> Any:
        status, expected = self.dice.choice(STATUSES), self.dice.choice((None, self.versions.get(key)))
        ask = self.store.update_status(self.tenant, key[1], status, precondition=_version(expected))
        arguments = {"status": status.value, "expected": expected}
        return self._note_answer(
            key, await self.recorder.record(key, "update_status", arguments, ask, lambda stamp: stamp.version)
        )

    async def delete(self, key: Key) -> Any:
        expected = self.dice.choice((None, self.versions.get(key)))
        ask = self.store.delete(self.tenant, key[1], precondition=_version(expected))
        return await self.recorder.record(key, "delete", {"expected": expected}, ask, lambda nothing: nothing)

    # ---- Sessions ----

    async def acquire(self, key: Key) -> Any:
        ask = self.store.acquire_session(self.tenant, key[1], holder=self.name, ttl_ms=limits.LEASE_TTL_MS_MAX)
        answer = await self.recorder.record(key, "acquire", {"holder": self.name}, ask, lambda lease: lease.fence.token)
        if isinstance(answer, int):
            self.tokens[key] = answer
        return answer

    async def renew(self, key: Key) -> Any:
        token = self.tokens.get(key, 1)
        ask = self.store.renew_session(self.tenant, Fence(key[1], token), ttl_ms=limits.LEASE_TTL_MS_MAX)
        return await self.recorder.record(key, "renew", {"token": token}, ask, lambda lease: lease.fence.token)

    async def release(self, key: Key) -> Any:
        token = self.tokens.get(key, 1)
        ask = self.store.release_session(self.tenant, Fence(key[1], token))
        return await self.recorder.record(key, "release", {"token": token}, ask, lambda released: released)

    async def describe(self, key: Key) -> Any:
        ask = self.store.describe_session(self.tenant, key[1])
        return await self.recorder.record(
            key, "describe", {}, ask, lambda found: (found.last_fence, found.lease.holder if found.lease else None)
        )

    def _note_answer(self, key: Key, answer: Any) -> Any:
        if isinstance(answer, int):
            self.versions[key] = answer
        return answer


def new_keys(responses: int = RESPONSES, sessions: int = SESSIONS) -> list[Key]:
    """The keys of new objects."""
    return [
        *(("response", draft().id) for _ in range(responses)),
        *(("lease", new_session_id()) for _ in range(sessions)),
    ]


def new_clients(stores: Sequence[ResponseStore], tenant: str, seed: int, number: int = CLIENTS) -> list[Client]:
    """Clients of the same history, spread over the stores."""
    recorder = Recorder()
    return [
        Client(f"c{each}", cast("Store", stores[each % len(stores)]), tenant, recorder, random.Random(f"{seed}/{each}"))  # noqa: S311
        for each in range(number)
    ]


class LinearizabilitySuite:
    steps: ClassVar[int] = 25  # of each client
    rounds: ClassVar[int] = 4

    @pytest.mark.parametrize("seed", range(3))
    async def test_a_history_of_concurrent_clients_is_linearizable(self, subject: Subject, seed: int) -> None:
        keys, clients = new_keys(), new_clients((subject.store, subject.peer), subject.tenant, seed)

        async def act(client: Client) -> None:
            for _ in range(self.steps):
                assert await client.act(client.dice.choice(keys)) != UNKNOWN

        await asyncio.gather(*(act(client) for client in clients))
        recorder = clients[0].recorder
        assert len(recorder.operations) == CLIENTS * self.steps
        recorder.require_linearizable()

    @pytest.mark.parametrize("names", [("put", "delete"), ("put", "update_status"), ("update_status", "delete")])
    async def test_one_of_two_concurrent_changes_of_a_version_wins(
        self, subject: Subject, names: tuple[str, str]
    ) -> None:
        """Fails on a store that serializes one kind of write, but not different kinds with each other."""

        async def compete() -> None:
            record = draft(status=Status.IN_PROGRESS)
            await subject.put(record)
            stores = (cast("Store", subject.store), cast("Store", subject.peer))
            attempts = [_change(store, name, subject.tenant, record) for store, name in zip(stores, names, strict=True)]
            outcomes = await asyncio.gather(*attempts, return_exceptions=True)
            errors = [outcome for outcome in outcomes if isinstance(outcome, VersionMismatch | ResponseNotFound)]
            assert len(errors) == 1, outcomes

        for _ in range(self.rounds):
            await asyncio.gather(*(compete() for _ in range(CLIENTS)))


async def _change(store: Store, name: str, tenant: str, record: Record) -> None:
    """Changes the first version of a record."""
    first = Precondition(version=1)
    if name == "put":
        await store.put(tenant, replace(record, body=b"{}"), precondition=first)
    elif name == "delete":
        await store.delete(tenant, record.id, precondition=first)
    else:
        await store.update_status(tenant, record.id, Status.FAILED, precondition=first)


def _version(expected: int | None) -> Precondition:
    return NO_PRECONDITION if expected is None else Precondition(version=expected)


def _content(record: Record) -> tuple[int, str, str]:
    return record.version, record.status.value, record.body.decode()
