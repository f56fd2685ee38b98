"""The lease of a session as a value, and the steps that it can take, apart from any engine.

    free ──acquire──> held by A, fence n ──release, commit or time──> free, fence n
                       │  A again: same fence, later end
                       └─ B: SessionLocked

The token counts up with every new holder and never goes back, whatever happened in between. A fence is good for a
write only while its lease lives: a holder that was stopped and wakes up too late is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from antiphon_core.errors import SessionLocked, StaleFence
from antiphon_core.ports.store import Fence, Lease

NOBODY = ""


@dataclass(frozen=True, slots=True)
class SessionState:
    """What is stored of a session; the default is one that was never used."""

    head_id: str | None = None
    last_fence: int = 0
    holder: str = NOBODY
    lease_expires_at_ms: int = 0

    def is_held(self, now_ms: int) -> bool:
        return self.holder != NOBODY and now_ms < self.lease_expires_at_ms


NEVER_USED = SessionState()


def acquire(state: SessionState, session_id: str, *, holder: str, ttl_ms: int, now_ms: int) -> SessionState:
    """The session with its lease taken, or extended for the holder that has it. SessionLocked."""
    if not state.is_held(now_ms):
        return replace(state, last_fence=state.last_fence + 1, holder=holder, lease_expires_at_ms=now_ms + ttl_ms)
    if state.holder != holder:
        raise SessionLocked.of(session_id)
    return _extended(state, now_ms + ttl_ms)


def renew(state: SessionState, fence: Fence, *, ttl_ms: int, now_ms: int) -> SessionState:
    """The session with its lease extended. StaleFence."""
    require(state, fence, now_ms)
    return _extended(state, now_ms + ttl_ms)


def released(state: SessionState) -> SessionState:
    """The session with its lease given back."""
    return replace(state, holder=NOBODY, lease_expires_at_ms=0)


def holds(state: SessionState, fence: Fence, now_ms: int) -> bool:
    """Whether the fence's lease lives."""
    return state.is_held(now_ms) and state.last_fence == fence.token


def require(state: SessionState, fence: Fence, now_ms: int) -> None:
    """StaleFence unless the fence's lease lives."""
    if not holds(state, fence, now_ms):
        raise StaleFence.of(fence.session_id, token=fence.token)


def lease_of(state: SessionState, session_id: str, now_ms: int) -> Lease | None:
    """The living lease."""
    return granted(state, session_id) if state.is_held(now_ms) else None


def granted(state: SessionState, session_id: str) -> Lease:
    """The lease of a session that has just been acquired or renewed."""
    return Lease(Fence(session_id, state.last_fence), state.holder, state.lease_expires_at_ms)


def _extended(state: SessionState, expires_at_ms: int) -> SessionState:
    return replace(state, lease_expires_at_ms=max(state.lease_expires_at_ms, expires_at_ms))
