"""Idempotency keys, case by case. `antiphon_store.testing.idempotency` tests them through a store."""

from __future__ import annotations

from dataclasses import astuple, replace
from functools import partial
from typing import Any

import pytest

from antiphon_core.errors import IdempotencyMismatch
from antiphon_core.limits import IDEMPOTENCY_MEMORY_MS
from antiphon_core.ports.store import Stamp, Status
from antiphon_store.decisions import keys
from antiphon_store.decisions.keys import BINDING_MS, UNKNOWN, KeyUse
from antiphon_store.rows.model import Condition, Index, Kind, Now, Row
from antiphon_store.testing.idempotency import FINGERPRINT, OTHER, keyed
from antiphon_store.testing.subject import draft
from tests.support.rows import NOW_MS, answered, decided, fields_of, guards_on, row, shown, view_of

RECORD, STRANGER = draft(), draft()
STAMP = Stamp(version=1, depth=0, created_at_ms=1, updated_at_ms=1)
KEY = (Kind.KEY, "k")
CLAIM_MS = 600_000
claim = partial(keys.claim, key="k", request=keyed(RECORD), claim_ttl_ms=CLAIM_MS)
bind = partial(keys.bind, key="k", response_id=RECORD.id)
VERSION = 5
MINE = KeyUse(RECORD.id, is_mine=True, is_new=True, version=VERSION)


def stored(**fields: Any) -> Row:
    """A claim of RECORD in force, changed by `fields`."""
    defaults: dict[str, Any] = {
        "response": RECORD.id,
        "fingerprint": FINGERPRINT.hex(),
        "claimed_until": NOW_MS + 10,
        "expires": NOW_MS + 1_000_000,
        "bound": 0,
        "binding_until": 0,
        "stamp": None,
    }
    return row(**(defaults | fields))


BOUND = stored(bound=1, claimed_until=NOW_MS)


def made(decision: Any, key: Row | None) -> tuple[KeyUse, dict[str, Any]]:
    """The answer, and the fields that are written."""
    view = view_of({KEY: key})
    use = decision(view)([row(v=VERSION)])
    return use, fields_of(view.program(), Kind.KEY)


def test_a_free_key_is_claimed_in_one_program() -> None:
    program = decided(claim)
    assert guards_on(program, Kind.KEY) == [(Condition.ABSENT, "", None)]
    assert shown(program) == [("put", *KEY), ("file", Index.ENDS, "", "key/k")]
    fields = fields_of(program, Kind.KEY)
    assert fields["claimed_until"] == Now(CLAIM_MS)
    assert fields["expires"] == Now(IDEMPOTENCY_MEMORY_MS)
    assert (fields["response"], fields["bound"], fields["stamp"]) == (RECORD.id, 0, None)


def test_a_key_is_kept_at_least_as_long_as_its_claim() -> None:
    long_ms = IDEMPOTENCY_MEMORY_MS + 1
    assert fields_of(decided(partial(claim, claim_ttl_ms=long_ms)), Kind.KEY)["expires"] == Now(long_ms)


CLAIMED = [
    (None, MINE),
    (stored(), replace(MINE, is_new=False)),  # claimed again by its response
    (stored(response=STRANGER.id, claimed_until=NOW_MS), MINE),  # the claim has expired
    (stored(response=STRANGER.id, fingerprint=OTHER.hex(), claimed_until=NOW_MS), MINE),
    (stored(bound=1, expires=NOW_MS), MINE),
]


@pytest.mark.parametrize(("key", "use"), CLAIMED)
def test_a_free_own_or_expired_key_can_be_claimed(key: Row | None, use: KeyUse) -> None:
    assert made(claim, key)[0] == use


TOLD = [
    (stored(response=STRANGER.id), KeyUse(STRANGER.id)),
    (stored(response=STRANGER.id, bound=1), KeyUse(STRANGER.id, is_bound=True, is_running=False)),
    (stored(response=STRANGER.id, bound=1, binding_until=NOW_MS + 1), KeyUse(STRANGER.id, is_bound=True)),
    (BOUND, KeyUse(RECORD.id, is_bound=True, is_running=False)),
    (stored(bound=1, fingerprint=UNKNOWN), KeyUse(RECORD.id, is_bound=True, is_running=False)),
]


@pytest.mark.parametrize(("key", "use"), TOLD)
def test_a_repeated_request_gets_the_response_of_its_key(key: Row, use: KeyUse) -> None:
    assert answered(claim, {KEY: key}) == use


@pytest.mark.parametrize("key", [stored(fingerprint=OTHER.hex()), stored(bound=1, fingerprint=OTHER.hex())])
def test_a_different_request_with_a_used_key_is_rejected(key: Row) -> None:
    with pytest.raises(IdempotencyMismatch):
        decided(claim, {KEY: key})


def test_the_key_of_a_missing_response_can_be_claimed() -> None:
    key = stored(response=STRANGER.id, bound=1)
    use, fields = made(partial(claim, gone_response_id=STRANGER.id), key)
    assert use == MINE
    assert (fields["response"], fields["bound"]) == (RECORD.id, 0)
    assert not answered(partial(claim, gone_response_id="another"), {KEY: key}).is_mine


def test_an_unclaimed_key_is_bound_in_one_program() -> None:
    fields = fields_of(decided(bind), Kind.KEY)
    assert (fields["bound"], fields["fingerprint"]) == (1, UNKNOWN)
    assert fields["expires"] == Now(IDEMPOTENCY_MEMORY_MS)
    assert (fields["claimed_until"], fields["binding_until"]) == (0, Now(BINDING_MS))


def test_a_binding_takes_over_the_fingerprint_of_its_claim() -> None:
    use, fields = made(bind, stored())
    assert (use.is_new, fields["fingerprint"]) == (False, FINGERPRINT.hex())
    assert made(bind, stored(claimed_until=NOW_MS))[1]["fingerprint"] == FINGERPRINT.hex()
    assert made(bind, stored(response=STRANGER.id, claimed_until=NOW_MS))[1]["fingerprint"] == UNKNOWN
    assert made(partial(bind, fingerprint=OTHER.hex()), None)[1]["fingerprint"] == OTHER.hex()


def test_a_binding_keeps_the_expiry_of_its_claim() -> None:
    assert made(bind, stored())[1]["claimed_until"] == NOW_MS + 10


def test_binding_a_key_of_another_response_is_rejected() -> None:
    for key in (stored(response=STRANGER.id), stored(response=STRANGER.id, bound=1, claimed_until=0)):
        with pytest.raises(IdempotencyMismatch):
            decided(bind, {KEY: key})
    assert made(bind, stored(response=STRANGER.id, claimed_until=NOW_MS))[0].is_new


def test_a_repeated_binding_only_extends_its_protection_against_undo() -> None:
    use, fields = made(bind, BOUND)
    assert use == KeyUse(RECORD.id, is_mine=True, was_bound=True, is_bound=True)
    assert fields == {"binding_until": Now(BINDING_MS)}  # a new version, which makes an undo of the first binding fail


def test_a_repeated_single_write_is_answered_with_its_first_stamp() -> None:
    written = stored(bound=1, stamp=list(astuple(STAMP)))
    assert answered(partial(bind, fingerprint=FINGERPRINT.hex()), {KEY: written}).stamp == STAMP
    with pytest.raises(IdempotencyMismatch):
        decided(partial(bind, fingerprint=OTHER.hex()), {KEY: written})


def test_a_stamp_is_stored_only_under_a_key_of_its_response() -> None:
    remember = partial(keys.remember_stamp, key="k", response_id=RECORD.id, stamp=STAMP)
    program = decided(remember)
    assert guards_on(program, Kind.KEY) == [(Condition.IS, "response", RECORD.id)]
    assert fields_of(program, Kind.KEY) == {"stamp": list(astuple(STAMP)), "binding_until": 0}
    assert answered(remember, {KEY: stored(response=STRANGER.id)}) is None


FORGOTTEN = [(stored(), True), (BOUND, False), (stored(response=STRANGER.id), False), (None, False)]


@pytest.mark.parametrize(("key", "is_freed"), FORGOTTEN)
def test_a_key_is_freed_only_by_its_response_and_only_before_binding(key: Row | None, is_freed: bool) -> None:
    program = decided(partial(keys.forget, key="k", response_id=RECORD.id), {KEY: key})
    assert shown(program) == ([("delete", *KEY)] if is_freed else [])


THEN = stored(bound=1, v=VERSION)
UNDONE = [
    # the use to undo, the key now, the changes
    (replace(MINE, is_bound=True), THEN, [("delete", *KEY)]),
    (MINE, stored(v=VERSION), [("delete", *KEY)]),
    (replace(MINE, is_new=False, is_bound=True), THEN, [("set", *KEY)]),  # the earlier claim is restored
    (replace(MINE, is_new=False), stored(v=VERSION), []),
    (MINE, stored(v=VERSION + 1), []),  # another write came after it
    (KeyUse(RECORD.id, is_mine=True, was_bound=True, is_bound=True), THEN, []),
    (MINE, None, []),
]


@pytest.mark.parametrize(("use", "key", "changes"), UNDONE)
def test_undoing_a_rejected_write_restores_the_key(use: KeyUse, key: Row | None, changes: object) -> None:
    assert shown(decided(partial(keys.undo, key="k", use=use), {KEY: key})) == changes


def test_each_key_of_each_tenant_has_its_own_partition() -> None:
    assert keys.partition_of("t", "k") == keys.partition_of("t", "k")
    assert len({keys.partition_of("t", "k"), keys.partition_of("t", "l"), keys.partition_of("u", "k")}) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"status": Status.FAILED},
        {"body": b"{}"},
        {"input_items": b"[]"},
        {"output_items": b"[]"},
        {"parent_id": draft().id},
        {"session_id": "s"},
        {"id": draft().id},
    ],
    ids=lambda change: next(iter(change)),
)
def test_the_fingerprint_covers_every_field_that_the_writer_decides(change: dict[str, object]) -> None:
    record = draft()
    assert keys.fingerprint_of(replace(record, version=7, updated_at_ms=5)) == keys.fingerprint_of(record)
    assert keys.fingerprint_of(replace(record, **change)) != keys.fingerprint_of(record)  # type: ignore[arg-type]
