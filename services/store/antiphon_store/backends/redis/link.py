"""Running scripts on the servers, and what an answer waits for.

A script is asked for by its SHA; a server that has not seen it gets its text, once. At durability `quorum` a writing
script and a WAIT go out together on one connection, and the answer counts when enough replicas have the write. The
client's own Script objects do the first and cannot do the second: WAIT speaks only of the connection that it came by.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisClusterException, RedisError

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.redis.calls import Argument
from antiphon_store.backends.redis.cancellation import heard
from antiphon_store.backends.redis.connection import CALLS_MAX, Servers
from antiphon_store.backends.redis.faults import TooFewCopies, translate
from antiphon_store.backends.redis.scripts import READY, Script

READY_TIMEOUT_S = 0.8
WAIT_TIMEOUT_MS = 2_000  # for the replicas; shorter than the client waits for the answer

FAULTS = (RedisError, RedisClusterException, OSError, TimeoutError)

_atom_of: ContextVar[Link | None] = ContextVar("_atom_of", default=None)


class Link:
    """Owns the servers' client. `replicas` is how many must have a write before it is answered (0: none)."""

    def __init__(self, servers: Servers, *, replicas: int = 0) -> None:
        self._servers = servers
        self._client = servers.client
        self._replicas = replicas
        self._places = asyncio.Semaphore(CALLS_MAX)
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """What the script answers. StoreUnavailable: closed, or Redis cannot; a write may still have happened."""
        async with self._call(), self._places:
            call = (len(keys), *keys, *arguments)
            if script.lasts and self._replicas and isinstance(self._client, Redis):
                return await self._run_and_wait(self._client, script, call)
            return await self._run(script, call)

    @contextmanager
    def atom(self) -> Iterator[None]:
        """Calls that are made inside belong together: `close` waits for the last, and none is refused because it waits.
        StoreUnavailable after `close`."""
        self.require_open()
        with self._counted():
            former = _atom_of.set(self)
            try:
                yield
            finally:
                _atom_of.reset(former)

    async def ready(self) -> None:
        """StoreUnavailable: no master would run a script that writes, or none says so in time."""
        async with self._call(), asyncio.timeout(READY_TIMEOUT_S):
            await self._servers.ask_masters("EVAL", READY.text, "0")

    async def close(self) -> None:
        """Lets running calls end; every later one is refused."""
        self._closed = True
        await self._idle.wait()
        await self._servers.close()

    def require_open(self) -> None:
        """StoreUnavailable after `close`."""
        if self._closed:
            raise StoreUnavailable("The store is closed.")

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        if _atom_of.get() is not self:
            self.require_open()
        with heard(), self._counted():
            try:
                yield
            except FAULTS as error:
                await self._servers.ask_again_for_master()
                raise translate(error) from error

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _run(self, script: Script, call: tuple[Any, ...]) -> Any:
        try:
            return await self._servers.ask("EVALSHA", script.sha, *call)
        except NoScriptError:
            return await self._servers.ask("EVAL", script.text, *call)

    async def _run_and_wait(self, client: Redis, script: Script, call: tuple[Any, ...]) -> Any:
        answer, copies = await self._with_wait(client, "EVALSHA", script.sha, *call)
        if isinstance(answer, NoScriptError):
            answer, copies = await self._with_wait(client, "EVAL", script.text, *call)
        for outcome in (answer, copies):
            if isinstance(outcome, Exception):
                raise outcome
        if copies < self._replicas and answer[0] == b"ok":
            raise TooFewCopies(f"{script.name} reached {copies} of {self._replicas} replicas in time")
        return answer

    async def _with_wait(self, client: Redis, *command: Any) -> Sequence[Any]:
        async with client.pipeline(transaction=False) as pipeline:
            pipeline.execute_command(*command)
            pipeline.execute_command("WAIT", self._replicas, WAIT_TIMEOUT_MS)
            try:
                outcomes: Sequence[Any] = await pipeline.execute(raise_on_error=False)
            except RuntimeError as error:  # uvloop, of a connection that the server has closed
                raise ConnectionError("the connection was closed by the server") from error
        return outcomes
