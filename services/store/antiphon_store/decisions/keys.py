"""Idempotency keys: pointers from a key to the response of the turn, or of the write, that brought it first.

free ──BeginTurn──> claimed by response R ──CommitTurn of R──> bound to R for 24 h: others get R
                      │  R's owner again: goes on, later end
                      ├─ another request: IdempotencyMismatch
                      ├─ the same request: told that R runs
                      ├─ AbortTurn of R ──> free
                      └─ the claim's time is over: the next request takes it; R may still commit until then

Row KEY, in a partition of its own: `response`, `fingerprint` (hexadecimal; "" when it was bound without BeginTurn),
`claimed_until`, `expires`, `stamp` (of a single write). A key is bound when its response is stored: the commit extends
the claim first and writes the response then, so that a key which leads nowhere is no more than a claim.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from hashlib import sha256
from typing import Any

from antiphon_core import limits
from antiphon_core.errors import IdempotencyMismatch
from antiphon_core.ports.store import Stamp, TurnRequest
from antiphon_store.rows.decision import Finish
from antiphon_store.rows.model import Condition, Index, Kind, Now, Partition, Row
from antiphon_store.rows.view import View

UNKNOWN = ""  # the fingerprint of a key that was bound without BeginTurn
BINDING_MS = 60_000  # how long a commit may take after its key was extended


@dataclass(frozen=True, slots=True)
class KeyUse:
    """The present use of a key: its response, and the stamp of a single write. `is_mine`: the key is
    this response's now, `is_new`: it was not before, `was_bound`: it was bound to it before."""

    response_id: str
    is_mine: bool = False
    is_new: bool = False
    was_bound: bool = False
    is_bound: bool = False
    is_claimed: bool = True
    stamp: Stamp | None = None


def partition_of(tenant: str, key: str) -> Partition:
    """Where a key lies."""
    return Partition(tenant, f"key-{sha256(key.encode()).hexdigest()[:16]}")


def claim(
    view: View, *, key: str, request: TurnRequest, claim_ttl_ms: int, gone_response_id: str | None = None
) -> Finish[KeyUse]:
    """Claims the key for the request's response, or tells which response it leads to. IdempotencyMismatch.

    `gone_response_id`: a response that neither can be read nor runs. A key that still leads to it is free."""
    response_id = request.response_id or ""
    row = _known(view, key)
    is_new = True
    if row is not None and row.fields["response"] != gone_response_id and _is_in_force(row, view.now_ms):
        _require_fingerprint(row, key, request.fingerprint.hex())
        is_new = row.fields["response"] != response_id
        if is_new or row.fields["bound"]:
            return _told(_use_of(row, view.now_ms))
    _write(view, key, response_id, request.fingerprint.hex(), claimed_until=Now(claim_ttl_ms), kept_ms=claim_ttl_ms)
    return _told(KeyUse(response_id, is_mine=True, is_new=is_new))


def bind(view: View, *, key: str, response_id: str, fingerprint: str | None = None) -> Finish[KeyUse]:
    """Makes the key this response's for a day, or tells the stamp of the write that did so before.
    IdempotencyMismatch: it is another's."""
    row = _known(view, key)
    if row is not None and _is_in_force(row, view.now_ms):
        if row.fields["response"] != response_id:
            raise IdempotencyMismatch.of(key)
        if fingerprint is not None:
            _require_fingerprint(row, key, fingerprint)
            if row.fields["stamp"] is not None:
                return _told(_use_of(row, view.now_ms))
    is_own = row is not None and row.fields["response"] == response_id and row.fields["expires"] > view.now_ms
    if row is not None and is_own and row.fields["bound"]:
        return _told(KeyUse(response_id, is_mine=True, was_bound=True, is_bound=True))
    claimed_until: Any = Now(BINDING_MS)
    if row is not None and is_own:
        fingerprint = fingerprint or row.fields["fingerprint"]
        if row.fields["claimed_until"] > view.now_ms + BINDING_MS:
            claimed_until = row.fields["claimed_until"]
    _write(view, key, response_id, fingerprint or UNKNOWN, claimed_until=claimed_until, bound=1)
    return _told(KeyUse(response_id, is_mine=True, is_new=not is_own, is_bound=True))


def remember_stamp(view: View, *, key: str, response_id: str, stamp: Stamp) -> Finish[None]:
    """Keeps the stamp of a single write, for the same write again."""
    if view.test(Kind.KEY, key, Condition.IS, "response", response_id):
        view.set(Kind.KEY, key, stamp=list(astuple(stamp)))
    return lambda _answers: None


def forget(view: View, *, key: str, response_id: str) -> Finish[None]:
    """Frees a key that this response has claimed and not bound."""
    row = view.need(Kind.KEY, key)
    if row is not None and row.fields["response"] == response_id and not row.fields["bound"]:
        view.delete(Kind.KEY, key)
    return lambda _answers: None


def unbind(view: View, *, key: str, use: KeyUse) -> Finish[None]:
    """Undoes `bind`, whose use this is, because the write was refused: the key is claimed again, or free."""
    row = view.need(Kind.KEY, key)
    if row is not None and row.fields["response"] == use.response_id and not use.was_bound:
        if use.is_new:
            view.delete(Kind.KEY, key)
        else:
            view.set(Kind.KEY, key, bound=0)
    return lambda _answers: None


def _known(view: View, key: str) -> Row | None:
    """The key's row; None when there is none, which is assumed at first."""
    return None if view.test(Kind.KEY, key, Condition.ABSENT) else view.need(Kind.KEY, key)


def _told(use: KeyUse) -> Finish[KeyUse]:
    return lambda _answers: use


def _write(
    view: View, key: str, response_id: str, fingerprint: str, *, claimed_until: Any, kept_ms: int = 0, bound: int = 0
) -> None:
    kept_ms = max(kept_ms, limits.IDEMPOTENCY_MEMORY_MS)
    fields = {
        "response": response_id,
        "fingerprint": fingerprint,
        "claimed_until": claimed_until,
        "expires": Now(kept_ms),
        "bound": bound,
        "stamp": None,
    }
    view.put(Kind.KEY, key, fields)
    view.file(Index.ENDS, "", f"{Kind.KEY}/{key}", Now(kept_ms))


def _is_in_force(row: Row, now_ms: int) -> bool:
    """Whether it keeps others out: it was bound, or its claim lives."""
    fields = row.fields
    until: int = fields["expires"] if fields["bound"] else fields["claimed_until"]
    return until > now_ms


def _require_fingerprint(row: Row, key: str, fingerprint: str) -> None:
    if row.fields["fingerprint"] not in (UNKNOWN, fingerprint):
        raise IdempotencyMismatch.of(key)


def _use_of(row: Row, now_ms: int) -> KeyUse:
    stamp: Any = row.fields["stamp"]
    return KeyUse(
        row.fields["response"],
        is_bound=bool(row.fields["bound"]),
        is_claimed=row.fields["claimed_until"] > now_ms,
        stamp=Stamp(*stamp) if stamp is not None else None,
    )
