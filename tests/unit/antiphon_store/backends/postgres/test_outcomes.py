from __future__ import annotations

import re

import pytest

from antiphon_core.errors import (
    AlreadyExists,
    AntiphonError,
    IdempotencyMismatch,
    InvalidRequest,
    LimitExceeded,
    LogClosed,
    PositionMismatch,
    ResponseNotFound,
    StaleFence,
    StatusMismatch,
    VersionMismatch,
)
from antiphon_core.ports.event_logs import EventAppend
from antiphon_core.ports.store import Fence, Precondition, Stamp
from antiphon_store.backends.base import LogEnd, Write
from antiphon_store.backends.postgres.outcomes import AGAIN, STORED, Asked, Outcome
from antiphon_store.backends.postgres.schema import migrations
from antiphon_store.testing.subject import draft

ERRORS: dict[str, tuple[str | None, type[AntiphonError]]] = {
    "exists": (None, AlreadyExists),
    "missing": (None, ResponseNotFound),
    "no_parent": (None, ResponseNotFound),
    "stale_turn": (None, StaleFence),
    "stale_fence": (None, StaleFence),
    "other_version": ("3", VersionMismatch),
    "other_status": ("absent", StatusMismatch),
    "other_parent": (None, InvalidRequest),
    "too_deep": ("16777215", LimitExceeded),
    "full": ("7", LimitExceeded),
    "log_closed": (None, LogClosed),
    "other_position": ("4", PositionMismatch),
    "other_key": (None, IdempotencyMismatch),
}
CONDITION = Precondition(version=2, fence=Fence("job", 5))
ROOT = draft()
RECORD = draft(ROOT, session_id="s")
END = LogEnd(EventAppend(RECORD.id, 3, 1, b"data: {}\n\n", terminal=True), ttl_ms=1000)
ASKED = Asked.of(Write(RECORD, CONDITION, log_end=END, session_responses_max=7), turn=Fence("s", 6), key="the key")
FACTS: dict[str, dict[str, str]] = {
    "no_parent": {"id": ROOT.id},
    "exists": {"id": RECORD.id},
    "stale_turn": {"session_id": "s", "token": "6"},
    "stale_fence": {"session_id": "job", "token": "5"},
    "other_version": {"expected": "2", "actual": "3"},
    "full": {"limit": "7"},
    "other_position": {"expected": "3", "actual": "4"},
}


def refused(name: str, actual: str | None) -> Outcome:
    return Outcome.of([(name, actual, None, None, None, None, None)])


@pytest.mark.parametrize("name", ERRORS)
def test_a_refusal_is_the_error_that_the_rules_know(name: str) -> None:
    actual, error = ERRORS[name]
    with pytest.raises(error) as caught:
        refused(name, actual).stamp(ASKED)
    assert type(caught.value) is error
    assert FACTS.get(name, {}).items() <= caught.value.facts.items()


def test_every_outcome_that_the_database_gives_is_known() -> None:
    scripts = "\n".join(step.script for step in migrations())
    given = set(re.findall(r"refused_v\d+\('(\w+)'", scripts)) | set(re.findall(r"SELECT ROW\('(\w+)'", scripts))
    assert given == set(ERRORS) | {STORED, AGAIN}


def test_what_is_stored_has_a_stamp() -> None:
    outcome = Outcome.of([(STORED, None, 3, (7 << 24) + 2, 10, 11, None)])
    assert outcome.stamp(ASKED) == Stamp(3, 2, 10, 11, None)


@pytest.mark.parametrize(("name", "actual"), [("nonsense", None), ("full", "6")])
def test_an_outcome_that_is_none_is_our_bug(name: str, actual: str | None) -> None:
    with pytest.raises(AssertionError):
        refused(name, actual).stamp(ASKED)
