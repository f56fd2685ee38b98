"""Idempotency keys: pointers from a key to the response of the turn, or of the write, that brought it first.

free ──BeginTurn──> claimed by response R ──CommitTurn of R──> bound to R for 24 h: others get R
                      │  R's owner again: goes on, later end
                      ├─ another request: IdempotencyMismatch
                      ├─ the same request: told that R runs
                      ├─ AbortTurn of R ──> free
                      └─ the claim's time is over: the next request takes it; R may still commit until then

Row KEY, in a partition of its own: `response`, `fingerprint` (hexadecimal; "" when it was bound without BeginTurn),
`claimed_until`, `expires`, `bound`, `binding_until`, `stamp` (of a single write). A commit binds the key first and
writes the response then: until `binding_until` a bound key without a response is one that is being committed.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from hashlib import sha256
from typing import Any

from antiphon_core import limits
from antiphon_core.errors import IdempotencyMismatch
from antiphon_core.ports.store import Record, Stamp, TurnRequest
from antiphon_store.rows.model import Condition, Get, Index, Kind, Now, Partition, Ref, Row
from antiphon_store.rows.view import Finish, View, answer, nothing

UNKNOWN = ""  # the fingerprint of a key that was bound without BeginTurn
BINDING_MS = 60_000  # how long a commit may take after its key was bound


@dataclass(frozen=True, slots=True)
class KeyUse:
    """The present use of a key: its response, and the stamp of a single write. `is_mine`: the key is
    this response's now, `is_new`: it was not before, `was_bound`: it was bound to it before. `is_running`: a turn or a
    commit is under way, as far as time tells. `version`: of the row that a claim or a binding wrote."""

    response_id: str
    is_mine: bool = False
    is_new: bool = False
    was_bound: bool = False
    is_bound: bool = False
    is_running: bool = True
    version: int = 0
    stamp: Stamp | None = None


def partition_of(tenant: str, key: str) -> Partition:
    """Where a key lies."""
    return Partition(tenant, f"key-{sha256(key.encode()).hexdigest()[:16]}")


def fingerprint_of(record: Record) -> bytes:
    """SHA-256 of what a writer decides about a record, with the length of each part before it."""
    digest = sha256()
    for text in (record.id, record.status, record.parent_id or "", record.session_id or ""):
        digest.update(text.encode() + b"\0")
    for part in (record.body, record.input_items, record.output_items):
        digest.update(b"%d:" % len(part) + part)
    return digest.digest()


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
            return answer(_use_of(row, view.now_ms))
    times = {"claimed_until": Now(claim_ttl_ms), "bound": 0, "binding_until": 0}
    fields = {"response": response_id, "fingerprint": request.fingerprint.hex(), **times}
    return _written(view, key, fields, KeyUse(response_id, is_mine=True, is_new=is_new), kept_ms=claim_ttl_ms)


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
                return answer(_use_of(row, view.now_ms))
    is_own = row is not None and row.fields["response"] == response_id and row.fields["expires"] > view.now_ms
    if row is not None and is_own and row.fields["bound"]:
        view.set(Kind.KEY, key, binding_until=Now(BINDING_MS))  # so that nobody undoes the first binding meanwhile
        return answer(KeyUse(response_id, is_mine=True, was_bound=True, is_bound=True))
    claim = row.fields if row is not None and is_own else {"fingerprint": UNKNOWN, "claimed_until": 0}
    times = {"claimed_until": claim["claimed_until"], "bound": 1, "binding_until": Now(BINDING_MS)}
    fields = {"response": response_id, "fingerprint": fingerprint or claim["fingerprint"], **times}
    return _written(view, key, fields, KeyUse(response_id, is_mine=True, is_new=not is_own, is_bound=True))


def remember_stamp(view: View, *, key: str, response_id: str, stamp: Stamp) -> Finish[None]:
    """Keeps the stamp of a single write, for the same write again."""
    if view.test(Kind.KEY, key, Condition.IS, "response", response_id):
        view.set(Kind.KEY, key, stamp=list(astuple(stamp)), binding_until=0)
    return nothing


def forget(view: View, *, key: str, response_id: str) -> Finish[None]:
    """Frees a key that this response has claimed and not bound."""
    row = view.need(Kind.KEY, key)
    if row is not None and row.fields["response"] == response_id and not row.fields["bound"]:
        view.delete(Kind.KEY, key)
    return nothing


def undo(view: View, *, key: str, use: KeyUse) -> Finish[None]:
    """Undoes `claim` or `bind`, whose use this is, because the turn or the write was refused: the key is claimed as
    before, or free. What was written over it since stays."""
    row = view.need(Kind.KEY, key)
    if row is not None and row.fields["v"] == use.version:
        if use.is_new:
            view.delete(Kind.KEY, key)
        elif use.is_bound:
            view.set(Kind.KEY, key, bound=0)
    return nothing


def _known(view: View, key: str) -> Row | None:
    """The key's row; None when there is none, which is assumed at first."""
    return None if view.test(Kind.KEY, key, Condition.ABSENT) else view.need(Kind.KEY, key)


def _written(view: View, key: str, fields: dict[str, Any], use: KeyUse, *, kept_ms: int = 0) -> Finish[KeyUse]:
    """Writes the row of a key: the use that it is, with the version of it."""
    kept_ms = max(kept_ms, limits.IDEMPOTENCY_MEMORY_MS)
    view.put(Kind.KEY, key, {**fields, "expires": Now(kept_ms), "stamp": None})
    view.file(Index.ENDS, "", f"{Kind.KEY}/{key}", Now(kept_ms))
    place = view.read(Get(Ref(Kind.KEY, key)))
    return lambda answers: replace(use, version=answers[place].fields["v"])


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
    is_bound = bool(row.fields["bound"])
    return KeyUse(
        row.fields["response"],
        is_bound=is_bound,
        is_running=row.fields["binding_until" if is_bound else "claimed_until"] > now_ms,
        stamp=Stamp(*stamp) if stamp is not None else None,
    )
