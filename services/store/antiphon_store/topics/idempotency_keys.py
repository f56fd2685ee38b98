"""Turns and writes under an idempotency key. The key is stored outside of the tree: it is claimed first, and released
when the operation on the tree fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from antiphon_core.errors import AntiphonError, InternalError, StoreUnavailable
from antiphon_core.ports.store import History, Precondition, Record, Stamp, TurnRequest, TurnStart
from antiphon_store.decisions import keys, nodes, records
from antiphon_store.rows.view import Finish
from antiphon_store.topics.trees import Trees

_Answer = TypeVar("_Answer")


class IdempotencyKeys:
    """The keys of all tenants."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self._undoing: set[asyncio.Future[None]] = set()

    async def begin(
        self,
        tenant: str,
        key: str,
        request: TurnRequest,
        begin: Callable[[], Awaitable[TurnStart]],
        *,
        claim_ttl_ms: int,
    ) -> TurnStart:
        """Claims the key and begins the turn; a turn that is rejected releases its claim. Of all requests with one key,
        one runs until its claim ends; the others take no lease. IdempotencyMismatch.

        In the result, `replay` is the readable response that the key is bound to (an unreadable one leaves the key
        free), and `running_response_id` the response that has claimed it."""
        claim = partial(keys.claim, request=request, claim_ttl_ms=claim_ttl_ms)
        try:
            use = await self._run(tenant, key, claim)
        except StoreUnavailable as error:
            use = await self._earlier_use(tenant, key, request, error)
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

    async def commit(self, tenant: str, key: str, response_id: str, write: Callable[[], Awaitable[Stamp]]) -> Stamp:
        """Binds the key and commits the turn. IdempotencyMismatch: the key is another response's, and nothing was
        written."""
        use = await self._run(tenant, key, partial(keys.bind, response_id=response_id))
        return await self._write_under_key(tenant, key, use, write)

    async def put(
        self,
        tenant: str,
        key: str,
        record: Record,
        condition: Precondition,
        write: Callable[[], Awaitable[Stamp]],
    ) -> Stamp:
        """Binds the key and writes the record under `condition`. If the key has a stamp, returns that stamp, even if
        the record has changed since. IdempotencyMismatch."""
        bind = partial(keys.bind, response_id=record.id, fingerprint=keys.fingerprint_of(record).hex())
        use = await self._run(tenant, key, bind)
        if use.stamp is not None:
            return use.stamp
        if use.was_bound:  # an earlier write may have happened, and its stamp was not stored
            now_ms, row = await self._trees.look_up(tenant, record.id)
            if row is not None and records.may_follow(row, condition, now_ms):
                return nodes.stamp_of(row)
        stamp = await self._write_under_key(tenant, key, use, write)
        await self._run(tenant, key, partial(keys.remember_stamp, response_id=record.id, stamp=stamp))
        return stamp

    async def forget(self, tenant: str, key: str, response_id: str) -> None:
        """Frees the key if this response has claimed it and not bound it."""
        await self._run(tenant, key, partial(keys.forget, response_id=response_id))

    async def _earlier_use(self, tenant: str, key: str, request: TurnRequest, error: StoreUnavailable) -> keys.KeyUse:
        """The use of a key that a full store has: repeated requests are still answered. Otherwise raises `error`."""
        use = await self._run(tenant, key, partial(keys.look, request=request)) if error.is_full else None
        if use is None:
            raise error
        return use

    async def _elsewhere(self, tenant: str, use: keys.KeyUse) -> TurnStart | None:
        """The start of a turn whose key another use has: that response, or that it runs. None when the key is free
        after all."""
        if not use.is_bound:
            return TurnStart(History(), running_response_id=use.response_id)
        now_ms, row = await self._trees.look_up(tenant, use.response_id)
        if row is None:  # a single lookup: a commit may write it at any moment
            return TurnStart(History(), running_response_id=use.response_id) if use.is_running else None
        if nodes.is_readable(row, now_ms):
            return TurnStart(History(), replay=nodes.to_record(use.response_id, row))
        return None

    async def _write_under_key(
        self, tenant: str, key: str, use: keys.KeyUse, write: Callable[[], Awaitable[Stamp]]
    ) -> Stamp:
        """Writes under a bound key. If the write is rejected, the binding is undone, unless the key was bound again
        since."""
        try:
            return await write()
        except (StoreUnavailable, InternalError):
            raise  # it may have happened
        except AntiphonError:
            await self._undo(tenant, key, use)
            raise

    async def _undo(self, tenant: str, key: str, use: keys.KeyUse) -> None:
        """Undoes a claim or a binding, even if the caller is cancelled meanwhile."""
        undoing = asyncio.ensure_future(self._run(tenant, key, partial(keys.undo, use=use)))
        self._undoing.add(undoing)
        undoing.add_done_callback(self._undoing.discard)
        await asyncio.shield(undoing)

    async def _run(self, tenant: str, key: str, decision: Callable[..., Finish[_Answer]]) -> _Answer:
        return await self._trees.run(keys.partition_of(tenant, key), partial(decision, key=key))
