"""Idempotency keys: pointers from a key to the response of the first turn, or write, with that key.

free ──BeginTurn──> claimed by response R ──CommitTurn of R──> bound to R for 24 h: repeated requests get R
                      ├─ BeginTurn of R again: the claim is extended
                      ├─ another request: IdempotencyMismatch
                      ├─ a repeated request: gets the id of R, which is running
                      ├─ AbortTurn of R ──> free
                      └─ the claim expires: the next request takes the key; until then R may still commit

Row KEY, in a partition of its own: `response`, `fingerprint` (hexadecimal; "" if it was bound without BeginTurn),
`claimed_until`, `expires`, `bound`, `binding_until`, `stamp` (of a PutResponseRecord). A commit binds the key first and
writes the response after that: until `binding_until`, a commit may still be writing the response of a bound key.
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
    """The use of a key: the response that has it, and the stamp of a single write. `is_mine`: the caller's response has
    the key now; `is_new`: it did not have it before; `was_bound`: it was bound to it before. `is_running`: the claim or
    the binding has not expired. `version`: that of the row that a claim or a binding wrote."""

    response_id: str
    is_mine: bool = False
    is_new: bool = False
    was_bound: bool = False
    is_bound: bool = False
    is_running: bool = True
    version: int = 0
    stamp: Stamp | None = None


def partition_of(tenant: str, key: str) -> Partition:
    """The partition of a key."""
    return Partition(tenant, f"key-{sha256(key.encode()).hexdigest()[:16]}")


def fingerprint_of(record: Record) -> bytes:
    """SHA-256 of the fields of a record that its writer decides."""
    digest = sha256()
    for text in (record.id, record.status, record.parent_id or "", record.session_id or ""):
        digest.update(text.encode() + b"\0")
    for part in (record.body, record.input_items, record.output_items):
        digest.update(b"%d:" % len(part) + part)
    return digest.digest()


def claim(
    view: View, *, key: str, request: TurnRequest, claim_ttl_ms: int, gone_response_id: str | None = None
) -> Finish[KeyUse]:
    """Claims the key for the request's response, or returns the use by another response. IdempotencyMismatch.

    `gone_response_id`: a response that is neither readable nor running; a key that it has is free."""
    response_id = request.response_id or ""
    row = _find_key(view, key)
    is_new = True
    if row is not None and row.fields["response"] != gone_response_id and _is_in_force(row, view.now_ms):
        _require_fingerprint(row, key, request.fingerprint.hex())
        is_new = row.fields["response"] != response_id
        if is_new or row.fields["bound"]:
            return answer(_use_of(row, view.now_ms))
    times = {"claimed_until": Now(claim_ttl_ms), "bound": 0, "binding_until": 0}
    fields = {"response": response_id, "fingerprint": request.fingerprint.hex(), **times}
    return _write_key(view, key, fields, KeyUse(response_id, is_mine=True, is_new=is_new), kept_ms=claim_ttl_ms)


def look(view: View, *, key: str, request: TurnRequest) -> Finish[KeyUse | None]:
    """The use of the key by an earlier request; None if there is none. Writes nothing. IdempotencyMismatch."""
    row = view.need(Kind.KEY, key)
    if row is None or not _is_in_force(row, view.now_ms):
        return answer(None)
    _require_fingerprint(row, key, request.fingerprint.hex())
    is_earlier = row.fields["bound"] or row.fields["response"] != request.response_id
    return answer(_use_of(row, view.now_ms) if is_earlier else None)


def bind(view: View, *, key: str, response_id: str, fingerprint: str | None = None) -> Finish[KeyUse]:
    """Binds the key to this response for a day. With `fingerprint`, returns the stamp of an equal write that was made
    before. IdempotencyMismatch: another response has the key, or another write was made with it."""
    row = _find_key(view, key)
    if row is not None and _is_in_force(row, view.now_ms):
        if row.fields["response"] != response_id:
            raise IdempotencyMismatch.of(key)
        if fingerprint is not None:
            _require_fingerprint(row, key, fingerprint)
            if row.fields["stamp"] is not None:
                return answer(_use_of(row, view.now_ms))
    is_own = row is not None and row.fields["response"] == response_id and row.fields["expires"] > view.now_ms
    if row is not None and is_own and row.fields["bound"]:
        view.set(Kind.KEY, key, binding_until=Now(BINDING_MS))  # a new row version, so the first commit cannot undo it
        return answer(KeyUse(response_id, is_mine=True, was_bound=True, is_bound=True))
    claim = row.fields if row is not None and is_own else {"fingerprint": UNKNOWN, "claimed_until": 0}
    times = {"claimed_until": claim["claimed_until"], "bound": 1, "binding_until": Now(BINDING_MS)}
    fields = {"response": response_id, "fingerprint": fingerprint or claim["fingerprint"], **times}
    return _write_key(view, key, fields, KeyUse(response_id, is_mine=True, is_new=not is_own, is_bound=True))


def remember_stamp(view: View, *, key: str, response_id: str, stamp: Stamp) -> Finish[None]:
    """Stores the stamp of a single write, which repeated writes return."""
    if view.test(Kind.KEY, key, Condition.IS, "response", response_id):
        view.set(Kind.KEY, key, stamp=list(astuple(stamp)), binding_until=0)
    return nothing


def forget(view: View, *, key: str, response_id: str) -> Finish[None]:
    """Frees the key if this response has claimed it and not bound it."""
    row = view.need(Kind.KEY, key)
    if row is not None and row.fields["response"] == response_id and not row.fields["bound"]:
        view.delete(Kind.KEY, key)
    return nothing


def undo(view: View, *, key: str, use: KeyUse) -> Finish[None]:
    """Undoes the `claim` or `bind` that returned `use`, because the turn or the write was rejected: the key is claimed
    as before, or free. Does nothing if the row was written since."""
    row = view.need(Kind.KEY, key)
    if row is not None and row.fields["v"] == use.version:
        if use.is_new:
            view.delete(Kind.KEY, key)
        elif use.is_bound:
            view.set(Kind.KEY, key, bound=0)
    return nothing


def _find_key(view: View, key: str) -> Row | None:
    """The key's row, or None. The program first assumes that there is none, and guards that."""
    return None if view.test(Kind.KEY, key, Condition.ABSENT) else view.need(Kind.KEY, key)


def _write_key(view: View, key: str, fields: dict[str, Any], use: KeyUse, *, kept_ms: int = 0) -> Finish[KeyUse]:
    """Writes the row of a key, and returns `use` with the version of the row."""
    kept_ms = max(kept_ms, limits.IDEMPOTENCY_MEMORY_MS)
    view.put(Kind.KEY, key, {**fields, "expires": Now(kept_ms), "stamp": None})
    view.file(Index.ENDS, "", f"{Kind.KEY}/{key}", Now(kept_ms))
    return view.answer_from(lambda row: replace(use, version=row.fields["v"]), Get(Ref(Kind.KEY, key)))


def _is_in_force(row: Row, now_ms: int) -> bool:
    """Whether the row excludes other responses: its binding or its claim has not expired."""
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
