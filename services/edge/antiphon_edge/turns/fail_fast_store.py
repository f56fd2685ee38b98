"""The store as the edge asks it for callers: a caller hears within a second that the store is gone.

A write that is given up may have happened, as with any timeout. What a running turn must not lose, a commit or its log,
does not go through here and is retried instead (store_retry.py); nor do calls that take long by themselves, for a lease
or a job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from antiphon_core.errors import StoreUnavailable, Timeout
from antiphon_core.ports.full_store import FullStore
from antiphon_edge.turns.store_retry import StoreWatch

SOON = frozenset(
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
    """The store with the calls in SOON raising StoreUnavailable when it shows no sign of life."""
    return cast("FullStore", _FailFast(store, watch))


class _FailFast:
    def __init__(self, store: FullStore, watch: StoreWatch) -> None:
        self._store = store
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        return partial(self._soon, call) if name in SOON else call

    async def _soon(self, call: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
        asking = asyncio.ensure_future(call(*arguments, **options))
        try:
            await self._watch.while_it_lives(asking)
            return asking.result()
        except Timeout as error:  # one cause, one status
            raise StoreUnavailable("The store does not answer.") from error
        finally:
            asking.cancel()
