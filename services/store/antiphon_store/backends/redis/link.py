"""Runs scripts on the servers, and waits for replicas.

A script is called by its SHA; a server that does not know the SHA gets the text, once. Concurrent calls with short
answers share a pipeline, except on a Cluster, where each server has a part of the keys. At durability `quorum` a WAIT
follows the scripts that write, and an answer counts if enough replicas have the write. redis-py's Script objects cannot
do that: WAIT covers only the writes of its own connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from operator import attrgetter
from typing import Any

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError, RedisClusterException, RedisError

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.redis.connection import CALLS_MAX, Servers, exchange, on_open_connection
from antiphon_store.backends.redis.faults import TooFewCopies, translate
from antiphon_store.backends.redis.scripts import READY, Argument, Script, ScriptCall
from antiphon_store.joint_calls import JointCalls, Limits

log = logging.getLogger(__name__)

READY_TIMEOUT_S = 0.8
TOGETHER = Limits(together=8, together_bytes=2**20, runs=CALLS_MAX)
"""The calls of one pipeline. The server works on one pipeline while this process writes and reads others: with 64 calls
in each, server and process would wait for each other (docs/adr/0113)."""
WAIT_TIMEOUT_MS = 2_000  # of WAIT, shorter than the client's timeout for the answer

FAULTS = (RedisError, RedisClusterException, OSError, TimeoutError)


class Link:
    """Runs scripts, and owns the servers' client. `replicas`: how many must have a write before it is answered.

    After it was opened, every method but `close` is called in an `atom`."""

    def __init__(self, servers: Servers, *, replicas: int = 0) -> None:
        self._client, self._sentinels = servers
        self.replicas = replicas
        self._call_slots = asyncio.Semaphore(CALLS_MAX)
        self._joint_calls: dict[bool, JointCalls[ScriptCall, Any]] = {
            lasts: JointCalls(self._run_together, TOGETHER, size_bytes=attrgetter("size_bytes"))
            for lasts in (False, True)  # a read does not wait for replicas
        }
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_closed = False

    @contextmanager
    def atom(self) -> Iterator[Link]:
        """A context for calls that belong together: a `close` that begins meanwhile waits for the last of them.
        StoreUnavailable after `close`."""
        if self._is_closed:
            raise StoreUnavailable("The store is closed.")
        self._running += 1
        self._idle.clear()
        try:
            with cancellation_kept():
                yield self
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def run(
        self, script: Script, keys: Sequence[str], arguments: Sequence[Argument], *, is_short: bool = False
    ) -> Any:
        """Runs a script. `is_short`: its answer is short, so that the call may share a pipeline, which a Cluster does
        not have. StoreUnavailable: Redis failed; a write may still have happened."""
        call = ScriptCall(script, (len(keys), *keys, *arguments))
        if is_short:
            return await self._joint_calls[script.is_durable].run(call)
        (outcome,) = await self._run_together([call])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Redis | RedisCluster]:
        """The client, for commands of maintenance. StoreUnavailable: Redis failed."""
        async with self._translating():
            yield self._client

    async def ask(self, *command: Any, **options: Any) -> Any:
        """The answer to a command. StoreUnavailable: Redis failed."""
        async with self._translating():
            return await on_open_connection(lambda: self._client.execute_command(*command, **options))

    async def ask_masters(self, *command: str) -> list[Any]:
        """The answer of every master to a command without keys. StoreUnavailable: Redis failed."""
        if isinstance(self._client, Redis):
            return [await self.ask(*command)]
        async with self._translating():
            await self._client.initialize()
        return [await self.ask(*command, target_nodes=node) for node in self._client.get_primaries()]

    async def ready(self) -> None:
        """StoreUnavailable: a master would reject a script that writes, or does not answer in time."""
        async with self._translating(), asyncio.timeout(READY_TIMEOUT_S):
            await self.ask_masters("EVAL", READY.text, "0")

    async def close(self) -> None:
        """Waits for running atoms; later ones are rejected."""
        self._is_closed = True
        await self._idle.wait()
        for each in self._joint_calls.values():
            await each.settle()
        for client in (self._client, *self._sentinels):
            try:
                await client.aclose()
            except RedisError as error:
                log.info("a connection was not closed in time: %s", error)

    async def _run_together(self, calls: Sequence[ScriptCall]) -> Sequence[Any]:
        """The answers to the calls of a batch, with an error for a call that failed."""
        replicas = self.replicas if any(call.script.is_durable for call in calls) else 0
        by_sha = [("EVALSHA", call.script.sha, *call.arguments) for call in calls]
        async with self._call_slots, self._translating():
            outcomes = await self._ask_together(by_sha, replicas)
            unseen = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, NoScriptError)]
            if unseen:
                by_text = [("EVAL", calls[number].script.text, *calls[number].arguments) for number in unseen]
                for number, outcome in zip(unseen, await self._ask_together(by_text, replicas), strict=True):
                    outcomes[number] = outcome
        return [await self._translate(each) if isinstance(each, FAULTS) else each for each in outcomes]

    async def _ask_together(self, commands: Sequence[tuple[Any, ...]], replicas: int) -> list[Any]:
        """The answers to scripts, after enough replicas have their writes: one WAIT covers all writes before it. They
        are one pipeline, except on a Cluster, where `replicas` is 0."""
        if isinstance(self._client, RedisCluster):
            calls = [on_open_connection(partial(self._client.execute_command, *each)) for each in commands]
            return await asyncio.gather(*calls, return_exceptions=True)
        pool = self._client.connection_pool
        if not replicas:
            return await on_open_connection(lambda: exchange(pool, commands))
        with_wait = [*commands, ("WAIT", replicas, WAIT_TIMEOUT_MS)]
        *outcomes, copies = await on_open_connection(lambda: exchange(pool, with_wait))
        if not isinstance(copies, Exception):
            if copies >= replicas:
                return outcomes
            copies = TooFewCopies(f"a write reached {copies} of {replicas} replicas in time")
        return [outcome if isinstance(outcome, Exception) else copies for outcome in outcomes]

    @asynccontextmanager
    async def _translating(self) -> AsyncIterator[None]:
        try:
            yield
        except FAULTS as error:
            raise await self._translate(error) from error

    async def _translate(self, error: Exception) -> Exception:
        """The error for the caller. Under Sentinel it also closes idle connections, so that the next call asks for the
        master: a master that was replaced while it was frozen keeps its connections, and rejects writes on them."""
        if self._sentinels and isinstance(self._client, Redis):
            await self._client.connection_pool.disconnect(inuse_connections=False)
        return translate(error)


@contextmanager
def cancellation_kept() -> Iterator[None]:
    """Raises CancelledError after its block, however that ended, if the current task was cancelled within the block.

    On Python 3.11 `asyncio.wait_for` swallows the cancellation of a task if the awaited call ends at the same moment
    (https://github.com/python/cpython/issues/86296, fixed in 3.12), and redis-py writes within it. Without this, a
    cancelled caller went on: the follower of a silent log for ever."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError
