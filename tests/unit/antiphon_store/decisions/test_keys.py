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
from antiphon_store.rows.model import Condition, Kind, Now, Row
from antiphon_store.testing.idempotency import FINGERPRINT, OTHER, keyed_request
from antiphon_store.testing.subject import draft
from tests.support.rows import NOW_MS, answered, decided, fields_of, guards_on, row, shown, view_of

RECORD, STRANGER = draft(), draft()
STAMP = Stamp(version=1, depth=0, created_at_ms=1, updated_at_ms=1)
KEY = (Kind.KEY, "k")
CLAIM_MS = 600_000
claim = partial(keys.claim, key="k", request=keyed_request(RECORD), claim_ttl_ms=CLAIM_MS)
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


def test_a_key_is_kept_at_least_as_long_as_its_claim() -> None:
    long_ms = IDEMPOTENCY_MEMORY_MS + 1
    assert fields_of(decided(partial(claim, claim_ttl_ms=long_ms)), Kind.KEY)["expires"] == Now(long_ms)


def test_a_binding_takes_over_the_fingerprint_of_its_claim() -> None:
    use, fields = made(bind, stored())
    assert (use.is_new, fields["fingerprint"]) == (False, FINGERPRINT.hex())
    assert made(bind, stored(claimed_until=NOW_MS))[1]["fingerprint"] == FINGERPRINT.hex()
    assert made(bind, stored(response=STRANGER.id, claimed_until=NOW_MS))[1]["fingerprint"] == UNKNOWN
    assert made(partial(bind, fingerprint=OTHER.hex()), None)[1]["fingerprint"] == OTHER.hex()


def test_binding_a_key_of_another_response_is_rejected() -> None:
    for key in (stored(response=STRANGER.id), stored(response=STRANGER.id, bound=1, claimed_until=0)):
        with pytest.raises(IdempotencyMismatch):
            decided(bind, {KEY: key})
    assert made(bind, stored(response=STRANGER.id, claimed_until=NOW_MS))[0].is_new


def test_a_repeated_binding_only_extends_its_protection_against_undo() -> None:
    use, fields = made(bind, BOUND)
    assert use == KeyUse(RECORD.id, is_mine=True, was_bound=True, is_bound=True)
    assert fields == {"binding_until": Now(BINDING_MS)}  # a new version, which makes an undo of the first binding fail


def test_a_stamp_is_stored_only_under_a_key_of_its_response() -> None:
    remember = partial(keys.remember_stamp, key="k", response_id=RECORD.id, stamp=STAMP)
    program = decided(remember)
    assert guards_on(program, Kind.KEY) == [(Condition.IS, "response", RECORD.id)]
    assert fields_of(program, Kind.KEY) == {"stamp": list(astuple(STAMP)), "binding_until": 0}
    assert answered(remember, {KEY: stored(response=STRANGER.id)}) is None


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
