"""Fail-fast timeouts for calls of the store that a caller waits for: if the store shows no sign of life, the caller
gets an error within a second.

A write that timed out may have happened all the same. Two kinds of calls do not have these timeouts. A running turn
writes its record and its event log to the store itself, and retries them (store_retry.py), because they must not be
lost. And calls that wait for a lease or a job may take long without a fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from antiphon_core.errors import StoreUnavailable, Timeout
from antiphon_core.ports.full_store import FullStore
from antiphon_edge.turns.store_retry import StoreWatch

FAIL_FAST_CALLS = frozenset(
    {
        "get",
        "batch_get",
        "delete",
        "list_items",
        "list_responses",
        "resolve_items",
        "chain",
        "fork",
        "tree",
        "children",
        "siblings",
        "leaves",
        "describe_session",
        "describe_job",
        "enqueue_job",
        "cancel_job",
        "append_events",
        "commit_turn",
        "renew_session",
        "create_conversation",
        "get_conversation",
        "update_conversation",
        "delete_conversation",
        "add_conversation_items",
        "list_conversation_items",
        "get_conversation_item",
        "delete_conversation_item",
        "put_prompt",
        "get_prompt",
        "list_prompts",
        "delete_prompt",
    }
)


def fail_fast(store: FullStore, watch: StoreWatch) -> FullStore:
    """Wraps the store: its FAIL_FAST_CALLS raise StoreUnavailable when the store shows no sign of life."""
    return cast("FullStore", _FailFast(store, watch))


class _FailFast:
    def __init__(self, store: FullStore, watch: StoreWatch) -> None:
        self._store = store
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        return partial(self._call, call) if name in FAIL_FAST_CALLS else call

    async def _call(self, call: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
        pending = asyncio.ensure_future(call(*arguments, **options))
        try:
            await self._watch.while_it_lives(pending)
            return pending.result()
        except Timeout as error:  # the same error as from a store that refuses the connection
            raise StoreUnavailable("The store does not answer.") from error
        finally:
            pending.cancel()
