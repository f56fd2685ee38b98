"""Lifetimes of rows, within the policy of the store."""

from __future__ import annotations

from antiphon_core.ports.checks import check_range


def lifetime_ms(ttl_ms: int | None, default_s: int | None, most_s: int | None) -> int | None:
    """A lifetime from now: `ttl_ms` if it is given, else the default. None: for ever. InvalidRequest: it is over the
    policy's limit."""
    if ttl_ms is None:
        return None if default_s is None else default_s * 1000
    if most_s is not None:
        check_range(ttl_ms, 1, most_s * 1000, "ttl_ms")
    return ttl_ms
