"""What is remembered of an idempotency key, and what it means for whoever brings it: rules shared by engines.

free ──BeginTurn──> claimed by response R ──CommitTurn of R──> bound to R for 24 h: others get R
                      │  R's owner again: goes on, later end
                      ├─ another request: IdempotencyMismatch
                      ├─ the same request: told that R runs
                      ├─ AbortTurn of R ──> free
                      └─ the claim's time is over: whoever comes next takes it; R may still commit until then
"""

from __future__ import annotations

from dataclasses import dataclass

from antiphon_core import limits
from antiphon_core.errors import IdempotencyMismatch
from antiphon_core.ports.store import Record, Stamp, TurnRequest

UNKNOWN = b""  # the fingerprint of a key that was bound without BeginTurn


@dataclass(frozen=True, slots=True)
class KeyUse:
    """A key's row. `stamp` is that of the write that bound it; None while its response runs."""

    response_id: str
    fingerprint: bytes
    claimed_until_ms: int
    expires_at_ms: int
    stamp: Stamp | None = None

    def holds(self, now_ms: int) -> bool:
        """Whether somebody else is kept out: it is bound, or its claim lives."""
        return now_ms < (self.claimed_until_ms if self.stamp is None else self.expires_at_ms)


def in_force(use: KeyUse | None, key: str, fingerprint: bytes, now_ms: int) -> KeyUse | None:
    """The use that a request has to respect; None when the key is free. IdempotencyMismatch: it is another's."""
    if use is None or not use.holds(now_ms):
        return None
    if use.fingerprint not in (UNKNOWN, fingerprint):
        raise IdempotencyMismatch.of(key)
    return use


def claimed(request: TurnRequest, *, ttl_ms: int, now_ms: int) -> KeyUse:
    """The key as BeginTurn leaves it."""
    return KeyUse(
        response_id=request.response_id or "",
        fingerprint=request.fingerprint,
        claimed_until_ms=now_ms + ttl_ms,
        expires_at_ms=now_ms + max(ttl_ms, limits.IDEMPOTENCY_MEMORY_MS),
    )


def require_own(use: KeyUse | None, key: str, response_id: str, now_ms: int) -> None:
    """That the key is free, or this response's. IdempotencyMismatch: somebody took it over, or it was used up."""
    if use is not None and use.holds(now_ms) and use.response_id != response_id:
        raise IdempotencyMismatch.of(key)


def bound(use: KeyUse | None, record: Record, stamp: Stamp, *, fingerprint: bytes | None, now_ms: int) -> KeyUse:
    """The key as a write of `record` leaves it. The first binding stays; a claim of the same response hands its
    fingerprint on."""
    own = use if use is not None and use.response_id == record.id and now_ms < use.expires_at_ms else None
    if own is not None and own.stamp is not None:
        return own
    claim = own.fingerprint if own is not None else UNKNOWN
    return KeyUse(
        response_id=record.id,
        fingerprint=claim if fingerprint is None else fingerprint,
        claimed_until_ms=now_ms,
        expires_at_ms=now_ms + limits.IDEMPOTENCY_MEMORY_MS,
        stamp=stamp,
    )
