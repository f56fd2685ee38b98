"""Roles of callers: which methods a credential may call, besides the tenants that it may speak for."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Role(StrEnum):
    """One part of an API. A credential has one or several."""

    READER = "reader"  # reads responses, trees, sessions and conversations
    WRITER = "writer"  # reads and writes them
    GATEWAY = "gateway"  # runs turns: an edge or a worker; has what a writer has, and the internal services
    OPERATOR = "operator"  # cleans up, and looks after jobs and leases; sees no conversation


Roles = frozenset[Role]

ALL_ROLES: Roles = frozenset(Role)


def listed(roles: Iterable[Role]) -> str:
    """The roles for a message, in the order of their declaration."""
    chosen = set(roles)
    return ", ".join(role for role in Role if role in chosen)
