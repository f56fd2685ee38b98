"""Roles of callers, which decide which methods a credential may call."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Role(StrEnum):
    """A set of methods that a credential may call. A credential has one or several roles."""

    READER = "reader"  # reads responses, trees, sessions and conversations
    WRITER = "writer"  # reads and writes them
    GATEWAY = "gateway"  # an edge or a worker, which runs turns; a writer that may also call the internal services
    OPERATOR = "operator"  # runs cleanup, inspects and cancels jobs, inspects leases; cannot read conversations


Roles = frozenset[Role]

ALL_ROLES: Roles = frozenset(Role)


def list_roles(roles: Iterable[Role]) -> str:
    """The names of roles for messages, in the order of their declaration."""
    chosen = set(roles)
    return ", ".join(role for role in Role if role in chosen)
