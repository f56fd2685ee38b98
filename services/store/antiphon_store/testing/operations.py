"""The operations of the store, found by introspection of its class, and the names of those that only read.

A new operation counts as one that writes unless `READS` names it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_store.service import StoreService

LIFE = frozenset({"open", "close"})  # these open and close the store, and touch no data

READS = frozenset(
    "ready get chain batch_get list_items list_responses resolve_items tree leaves children siblings describe_session "
    "get_conversation list_conversation_items get_conversation_item read_events describe_job queue_head "
    "get_prompt list_prompts list_approvals tenants".split()
)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation; `declaration` is its method of `StoreService`."""

    name: str
    declaration: Callable[..., Any]

    def writes(self, arguments: Sequence[Any], options: dict[str, Any]) -> bool:
        """Whether this call may write. `begin_turn` does if it takes a lease or an approval, or claims an idempotency
        key."""
        if self.name == "begin_turn":
            bound = inspect.signature(self.declaration).bind(None, *arguments, **options)
            request = bound.arguments["request"]
            return bool(request.session_id or request.idempotency_key or request.consumes)
        return self.name not in READS


def _is_operation(member: object) -> bool:
    return inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)


OPERATIONS: dict[str, Operation] = {
    name: Operation(name, method)
    for name, method in inspect.getmembers(StoreService, _is_operation)
    if name not in LIFE and not name.startswith("_")
}
