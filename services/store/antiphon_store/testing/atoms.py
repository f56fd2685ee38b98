"""Every operation of the engine, read off its class, and which of them only read.

Nothing has to be added here for a new operation. One that only reads is named in `READS`; any other counts as one that
writes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_store.engine.store_engine import StoreEngine

LIFE = frozenset({"open", "close"})  # of the engine, not of its data

READS = frozenset(
    "ready fetch ancestry describe_session require_room count_jobs "
    "fetch_many session_records find_items tree leaves children siblings "
    "read_log describe_job queue_head fetch_conversation conversation_items fetch_prompt list_prompts tenants".split()
)


@dataclass(frozen=True, slots=True)
class Atom:
    """`declaration` is the method of the engine: its signature and its meaning."""

    name: str
    declaration: Callable[..., Any]

    def writes(self, arguments: Sequence[Any], options: dict[str, Any]) -> bool:
        """Whether this call may change something. A turn that names no session takes no lease: it reads a history."""
        if self.name == "begin_turn":
            bound = inspect.signature(self.declaration).bind(None, *arguments, **options)
            return bound.arguments["request"].session_id is not None
        return self.name not in READS


ATOMS: dict[str, Atom] = {
    name: Atom(name, method)
    for name, method in inspect.getmembers(StoreEngine, inspect.iscoroutinefunction)
    if name not in LIFE and not name.startswith("_")
}
