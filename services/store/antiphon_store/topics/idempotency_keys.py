"""Turns and writes under an idempotency key. The key lies apart from the tree: it is claimed first, and given up when
the tree refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from antiphon_core.errors import AntiphonError, StoreUnavailable
from antiphon_core.ports.store import History, Record, Stamp, TurnRequest, TurnStart
from antiphon_store.decisions import keys, nodes
from antiphon_store.rows.view import Finish
from antiphon_store.topics.trees import Trees

_Answer = TypeVar("_Answer")


class IdempotencyKeys:
    """The keys of all tenants. What comes without a key is done as it is."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self._undoing: set[asyncio.Future[None]] = set()

    async def begin(
        self, tenant: str, request: TurnRequest, begin: Callable[[], Awaitable[TurnStart]], *, claim_ttl_ms: int
    ) -> TurnStart:
        """Begins a turn under a claim of its key: a refused turn gives the claim up, and a claim that somebody else has
        takes no lease. Of all that come with one key, one is told to run until its claim ends. IdempotencyMismatch.

        `replay`: the key was bound to this response, which is readable (one that is not leaves the key free).
        `running_response_id`: the key is claimed."""
        key = request.idempotency_key
        if key is None:
            return await begin()
        claim = partial(keys.claim, request=request, claim_ttl_ms=claim_ttl_ms)
        use = await self._run(tenant, key, claim)
        while not use.is_mine:
            elsewhere = await self._elsewhere(tenant, use)
            if elsewhere is not None:
                return elsewhere
            use = await self._run(tenant, key, partial(claim, gone_response_id=use.response_id))
        try:
            return await begin()
        except (AntiphonError, asyncio.CancelledError):
            await self._undo(tenant, key, use)
            raise

    async def commit(
        self, tenant: str, key: str | None, response_id: str, write: Callable[[], Awaitable[Stamp]]
    ) -> Stamp:
        """Commits a turn under a binding of the key. IdempotencyMismatch: the key is another response's, and nothing
        was written."""
        if key is None:
            return await write()
        use = await self._run(tenant, key, partial(keys.bind, response_id=response_id))
        return await self._written(tenant, key, use, write)

    async def put(self, tenant: str, key: str | None, record: Record, write: Callable[[], Awaitable[Stamp]]) -> Stamp:
        """Writes a record under a binding of the key; for a bound key the first stamp, whatever became of its record.
        IdempotencyMismatch."""
        if key is None:
            return await write()
        bind = partial(keys.bind, response_id=record.id, fingerprint=keys.fingerprint_of(record).hex())
        use = await self._run(tenant, key, bind)
        if use.stamp is not None:
            return use.stamp
        if use.was_bound:  # the stamp of a write that happened got lost
            _, row = await self._trees.look_up(tenant, record.id)
            if row is not None:
                return nodes.stamp_of(row)
        stamp = await self._written(tenant, key, use, write)
        await self._run(tenant, key, partial(keys.remember_stamp, response_id=record.id, stamp=stamp))
        return stamp

    async def forget(self, tenant: str, key: str, response_id: str) -> None:
        """Frees a key that this response has claimed and not bound; otherwise nothing."""
        await self._run(tenant, key, partial(keys.forget, response_id=response_id))

    async def _elsewhere(self, tenant: str, use: keys.KeyUse) -> TurnStart | None:
        """The result of the key's response, or that it runs; None when the key is free after all."""
        if not use.is_bound:
            return TurnStart(History(), running_response_id=use.response_id)
        now_ms, row = await self._trees.look_up(tenant, use.response_id)
        if row is None:  # looked at once: it may be written at any moment
            return TurnStart(History(), running_response_id=use.response_id) if use.is_running else None
        if nodes.is_readable(row, now_ms):
            return TurnStart(History(), replay=nodes.to_record(use.response_id, row))
        return None

    async def _written(self, tenant: str, key: str, use: keys.KeyUse, write: Callable[[], Awaitable[Stamp]]) -> Stamp:
        """The stamp of a write whose key was bound. A key is not bound to what was refused, unless the same write again
        was faster."""
        try:
            return await write()
        except StoreUnavailable:
            raise  # it may have happened
        except AntiphonError:
            _, row = await self._trees.look_up(tenant, use.response_id)
            if row is None:
                await self._undo(tenant, key, use)
            raise

    async def _undo(self, tenant: str, key: str, use: keys.KeyUse) -> None:
        """Also when the caller has left."""
        undoing = asyncio.ensure_future(self._run(tenant, key, partial(keys.undo, use=use)))
        self._undoing.add(undoing)
        undoing.add_done_callback(self._undoing.discard)
        await asyncio.shield(undoing)

    async def _run(self, tenant: str, key: str, decision: Callable[..., Finish[_Answer]]) -> _Answer:
        return await self._trees.run(keys.partition_of(tenant, key), partial(decision, key=key))
