"""Every atom that an engine may have, read off the protocols, and which of them only read.

The protocols of `backends.base` and `backends.roles` are the list; nothing has to be added here for a new atom. One
that only reads is named in `READS`; an atom that is not counts as one that writes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon_store.backends.base import Backend
from antiphon_store.backends.roles.conversations import ConversationAtoms
from antiphon_store.backends.roles.event_logs import EventLogAtoms
from antiphon_store.backends.roles.idempotency import IdempotencyAtoms
from antiphon_store.backends.roles.jobs import JobAtoms
from antiphon_store.backends.roles.lineage import LineageAtoms
from antiphon_store.backends.roles.retention import RetentionAtoms
from antiphon_store.backends.roles.spending import SpendingAtoms

ROLES: tuple[type[Any], ...] = (
    Backend,
    LineageAtoms,
    EventLogAtoms,
    JobAtoms,
    ConversationAtoms,
    IdempotencyAtoms,
    RetentionAtoms,
    SpendingAtoms,
)
LIFE = frozenset({"open", "close"})  # of the engine, not of its data

READS = frozenset(
    "ready fetch ancestry describe_session require_room count_jobs "
    "fetch_many session_records find_items subtree children siblings "
    "read_log describe_job fetch_conversation conversation_items tenants".split()
)


@dataclass(frozen=True, slots=True)
class Atom:
    """`declaration` is the method of the protocol: its signature and its meaning."""

    name: str
    declaration: Callable[..., Any]

    def writes(self, arguments: Sequence[Any], options: dict[str, Any]) -> bool:
        """Whether this call may change something. A turn that names no session takes no lease: it reads a history."""
        if self.name == "begin_turn":
            bound = inspect.signature(self.declaration).bind(None, *arguments, **options)
            return bound.arguments["request"].session_id is not None
        return self.name not in READS


def _declared(role: type[Any]) -> list[Atom]:
    methods = inspect.getmembers(role, inspect.iscoroutinefunction)
    return [Atom(name, method) for name, method in methods if name not in LIFE]


ATOMS: dict[str, Atom] = {atom.name: atom for role in ROLES for atom in _declared(role)}
