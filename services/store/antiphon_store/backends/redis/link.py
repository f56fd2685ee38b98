"""Running scripts on the servers, and what an answer waits for.

A script is asked for by its SHA; a server that has not seen it gets its text, once. Calls with short answers that meet
share a pipeline, except on a cluster, where each server has a share of the keys. At durability
`quorum` a WAIT goes out behind the scripts that write, on their connection, and an answer counts when enough replicas
have the write. The client's own Script objects do the first and cannot do the second: WAIT speaks only of the
connection that it came by.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from operator import attrgetter
from typing import Any

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError, RedisClusterException, RedisError

from antiphon_core.errors import StoreUnavailable
from antiphon_store.backends.redis.connection import CALLS_MAX, Servers
from antiphon_store.backends.redis.faults import TooFewCopies, translate
from antiphon_store.backends.redis.scripts import READY, Argument, Script, ScriptCall
from antiphon_store.joint_calls import JointCalls, Limits

READY_TIMEOUT_S = 0.8
TOGETHER = Limits(together=8, together_bytes=2**20, runs=CALLS_MAX)
"""The calls of one pipeline. The server works on one while this process writes and reads others: of 64 together, both
would wait for each other (docs/adr/0113)."""
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
        self._joint_calls: dict[bool, JointCalls[ScriptCall, Any]] = {
            lasts: JointCalls(self._run_jointly, TOGETHER, size_bytes=attrgetter("size_bytes"))
            for lasts in (False, True)  # a read does not wait for replicas
        }
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    async def run(
        self, script: Script, keys: Sequence[str], arguments: Sequence[Argument], *, is_short: bool = False
    ) -> Any:
        """Runs a script. `is_short`: its answer is, and calls that meet may go out together. StoreUnavailable: closed,
        or Redis cannot; a write may still have happened."""
        call = ScriptCall(script, (len(keys), *keys, *arguments))
        if is_short and isinstance(self._client, Redis):
            self._require_turn()
            with heard():
                return await self._joint_calls[script.lasts].run(call)
        async with self._call(), self._places:
            if isinstance(self._client, Redis):
                return _raised((await self._run_together([call]))[0])
            return await self._run(call)

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

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Redis | RedisCluster]:
        """The client itself, for what is neither a script nor urgent. StoreUnavailable."""
        async with self._call():
            yield self._client

    async def ask(self, *command: Any) -> Any:
        """The answer to a command that is not urgent. StoreUnavailable."""
        async with self._call(), self._places:
            return await self._servers.ask(*command)

    async def ready(self) -> None:
        """StoreUnavailable: no master would run a script that writes, or none says so in time."""
        async with self._call(), asyncio.timeout(READY_TIMEOUT_S):
            await self._servers.ask_masters("EVAL", READY.text, "0")

    async def close(self) -> None:
        """Lets running calls end; every later one is refused."""
        self._closed = True
        await self._idle.wait()
        for each in self._joint_calls.values():
            await each.settle()
        await self._servers.close()

    def require_open(self) -> None:
        """StoreUnavailable after `close`."""
        if self._closed:
            raise StoreUnavailable("The store is closed.")

    def _require_turn(self) -> None:
        """StoreUnavailable after `close`, unless the call belongs to an atom that began before."""
        if _atom_of.get() is not self:
            self.require_open()

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        self._require_turn()
        with heard(), self._counted():
            async with self._translated():
                yield

    @asynccontextmanager
    async def _translated(self) -> AsyncIterator[None]:
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

    async def _run(self, call: ScriptCall) -> Any:
        """Returns the script's answer on a cluster."""
        try:
            return await self._servers.ask("EVALSHA", call.script.sha, *call.arguments)
        except NoScriptError:
            return await self._servers.ask("EVAL", call.script.text, *call.arguments)

    async def _run_jointly(self, calls: Sequence[ScriptCall]) -> Sequence[Any]:
        """The answers to calls that met; of one that failed, its error."""
        async with self._places, self._translated():
            outcomes = await self._run_together(calls)
        return [translate(each) if isinstance(each, FAULTS) else each for each in outcomes]

    async def _run_together(self, calls: Sequence[ScriptCall]) -> Sequence[Any]:
        """The answers of one server; of a call that failed, its error."""
        replicas = self._replicas if any(call.script.lasts for call in calls) else 0
        by_sha = [("EVALSHA", call.script.sha, *call.arguments) for call in calls]
        outcomes = await self._ask_together(by_sha, replicas)
        unseen = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, NoScriptError)]
        if unseen:
            by_text = [("EVAL", calls[number].script.text, *calls[number].arguments) for number in unseen]
            for number, outcome in zip(unseen, await self._ask_together(by_text, replicas), strict=True):
                outcomes[number] = outcome
        return outcomes

    async def _ask_together(self, commands: Sequence[tuple[Any, ...]], replicas: int) -> list[Any]:
        """The answers to scripts, once enough replicas have what they wrote: one WAIT speaks of all before it."""
        if not replicas:
            return await self._servers.ask_together(commands)
        *outcomes, copies = await self._servers.ask_together([*commands, ("WAIT", replicas, WAIT_TIMEOUT_MS)])
        return [self._acknowledged(outcome, copies) for outcome in outcomes]

    def _acknowledged(self, outcome: Any, copies: Any) -> Any:
        """The outcome of a script, or why it does not count."""
        if isinstance(outcome, Exception) or outcome[0] != b"ok":
            return outcome
        if isinstance(copies, Exception):
            return copies
        if copies < self._replicas:
            return TooFewCopies(f"a write reached {copies} of {self._replicas} replicas in time")
        return outcome


@contextmanager
def heard() -> Iterator[None]:
    """CancelledError, whatever the block came to, if the current task was cancelled within it.

    On Python 3.11 `asyncio.wait_for` swallows the cancellation of a task when what it waits for ends in the same moment
    (https://github.com/python/cpython/issues/86296, mended in 3.12), and redis-py writes within it. A caller that was
    cancelled then went on as if nothing had happened: a follower of a silent log for ever."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


def _raised(outcome: Any) -> Any:
    """An answer; raises what stands in the place of one."""
    if isinstance(outcome, Exception):
        raise outcome
    return outcome
