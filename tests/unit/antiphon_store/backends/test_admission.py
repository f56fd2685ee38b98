"""The rules of writing, case by case. Through a store: `antiphon_store.testing.replacement`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import AlreadyExists, InvalidRequest, StatusMismatch, VersionMismatch
from antiphon_core.ports.store import Precondition, Status
from antiphon_store.backends import admission
from antiphon_store.backends.base import Write
from antiphon_store.testing.subject import draft

STORED = replace(draft(status=Status.IN_PROGRESS), version=3, depth=4, created_at_ms=10, updated_at_ms=20)
OTHER = replace(STORED, status=Status.COMPLETED)
RUNNING = frozenset({Status.IN_PROGRESS})


@pytest.mark.parametrize(
    ("record", "version", "replay"),
    [
        (STORED, None, True),
        (STORED, 2, True),  # this write would have made version 3
        (STORED, 3, False),  # a new version with the same content
        (STORED, 1, False),
        (STORED, 0, False),
        (OTHER, None, False),
        (OTHER, 2, False),
    ],
)
def test_a_replay_is_what_this_write_would_have_made(record: object, version: int | None, replay: bool) -> None:
    write = Write(STORED if record is STORED else OTHER, Precondition(version=version))
    assert admission.is_replay(STORED, write) is replay


def test_nothing_is_a_replay_of_nothing() -> None:
    assert not admission.is_replay(None, Write(STORED))


def test_first_writing_is_a_replay_of_itself_with_version_zero() -> None:
    first = replace(STORED, version=1)
    assert admission.is_replay(first, Write(first, Precondition(version=0)))


ADMITTED = [
    (None, Precondition()),
    (None, Precondition(version=0)),
    (STORED, Precondition(version=3)),
    (STORED, Precondition(statuses=RUNNING)),
    (STORED, Precondition(unless_statuses=frozenset({Status.CANCELLED}))),
    (STORED, Precondition(version=3, statuses=RUNNING)),
]
REFUSED = [
    (None, Precondition(version=1), VersionMismatch),
    (None, Precondition(statuses=RUNNING), StatusMismatch),
    (None, Precondition(unless_statuses=RUNNING), StatusMismatch),
    (STORED, Precondition(), AlreadyExists),
    (STORED, Precondition(version=0), AlreadyExists),
    (STORED, Precondition(version=2), VersionMismatch),
    (STORED, Precondition(version=0, statuses=RUNNING), VersionMismatch),
    (STORED, Precondition(statuses=frozenset({Status.QUEUED})), StatusMismatch),
    (STORED, Precondition(version=3, unless_statuses=RUNNING), StatusMismatch),
]


@pytest.mark.parametrize(("existing", "condition"), ADMITTED)
def test_admitted(existing: object, condition: Precondition) -> None:
    admission.require_admission(STORED if existing else None, Write(OTHER, condition))


@pytest.mark.parametrize(("existing", "condition", "error"), REFUSED)
def test_refused(existing: object, condition: Precondition, error: type[Exception]) -> None:
    with pytest.raises(error):
        admission.require_admission(STORED if existing else None, Write(OTHER, condition))


def test_a_parent_is_for_ever() -> None:
    moved = replace(OTHER, parent_id=draft().id)
    with pytest.raises(InvalidRequest):
        admission.require_admission(STORED, Write(moved, Precondition(version=3)))


def test_a_new_record_is_stamped() -> None:
    record = admission.stamped(None, Write(replace(OTHER, version=99), ttl_ms=5), depth=2, now_ms=100)
    assert (record.version, record.depth) == (1, 2)
    assert (record.created_at_ms, record.updated_at_ms, record.expires_at_ms) == (100, 100, 105)


def test_a_replaced_record_keeps_its_birth_and_depth() -> None:
    record = admission.stamped(STORED, Write(OTHER), depth=0, now_ms=100)
    assert (record.version, record.depth) == (4, 4)
    assert (record.created_at_ms, record.updated_at_ms, record.expires_at_ms) == (10, 100, None)


@pytest.mark.parametrize(("expires_at_ms", "expired"), [(None, False), (101, False), (100, True), (99, True)])
def test_the_last_moment_is_not_included(expires_at_ms: int | None, expired: bool) -> None:
    assert admission.is_expired(expires_at_ms, 100) is expired
