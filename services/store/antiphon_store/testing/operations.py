"""Every operation of the store, read off its class, and which of them only read.

Nothing has to be added here for a new operation. One that only reads is named in `READS`; any other counts as one that
writes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_store.service import StoreService

LIFE = frozenset({"open", "close"})  # of the store, not of its data

READS = frozenset(
    "ready get chain batch_get list_items list_responses resolve_items tree leaves children siblings describe_session "
    "get_conversation list_conversation_items get_conversation_item read_events describe_job queue_head "
    "get_prompt list_prompts tenants".split()
)


@dataclass(frozen=True, slots=True)
class Operation:
    """`declaration` is the method of the store: its signature and its meaning."""

    name: str
    declaration: Callable[..., Any]

    def writes(self, arguments: Sequence[Any], options: dict[str, Any]) -> bool:
        """Whether this call may change something. A turn that names no session takes no lease: it reads a history."""
        if self.name == "begin_turn":
            bound = inspect.signature(self.declaration).bind(None, *arguments, **options)
            return bound.arguments["request"].session_id is not None
        return self.name not in READS


def _is_operation(member: object) -> bool:
    return inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)


OPERATIONS: dict[str, Operation] = {
    name: Operation(name, method)
    for name, method in inspect.getmembers(StoreService, _is_operation)
    if name not in LIFE and not name.startswith("_")
}
