"""The operations under idempotency keys, the same ones for turns and for single writes (`decisions.keys`).

A key lies apart from the trees: it is claimed or bound first, and given up when the tree refuses.
"""

from __future__ import annotations

from typing import Protocol

from antiphon_core.ports.store import Fence, Stamp, TurnRequest, TurnStart
from antiphon_store.backends.base import Write


class IdempotencyAtoms(Protocol):
    async def begin_turn_once(self, tenant: str, request: TurnRequest, *, claim_ttl_ms: int) -> TurnStart:
        """`begin_turn` under a claim of the key: a refused turn gives the claim up, and a claim that somebody
        else has takes no lease. Of all that come with one key, one is told to run until its claim ends.

        `replay`: the key was bound to this response, which is readable (one that is not leaves the key free).
        `running_response_id`: the key is claimed. IdempotencyMismatch, and what `begin_turn` raises."""

    async def commit_turn_once(self, tenant: str, write: Write, fence: Fence | None, *, key: str) -> Stamp:
        """`commit_turn` under a binding of the key. IdempotencyMismatch: the key is another response's,
        and nothing was written; else what `commit_turn` raises."""

    async def put_once(self, tenant: str, write: Write, *, key: str, fingerprint: bytes) -> Stamp:
        """`put` under a binding of the key; for a bound key the first stamp, whatever became of its
        record. IdempotencyMismatch, and what `put` raises."""

    async def forget_key(self, tenant: str, key: str, response_id: str) -> None:
        """Frees a key that this response has claimed and not bound; otherwise nothing."""
