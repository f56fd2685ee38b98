from __future__ import annotations

import re

import pytest

from antiphon_core.errors import (
    AlreadyExists,
    AntiphonError,
    InvalidRequest,
    LimitExceeded,
    ResponseNotFound,
    StaleFence,
    StatusMismatch,
    VersionMismatch,
)
from antiphon_core.ports.store import Fence, Precondition, Stamp
from antiphon_store.backends.postgres.outcomes import AGAIN, STORED, Outcome
from antiphon_store.backends.postgres.schema import migrations
from antiphon_store.testing.subject import draft

ERRORS: dict[str, tuple[str | None, type[AntiphonError]]] = {
    "exists": (None, AlreadyExists),
    "missing": (None, ResponseNotFound),
    "no_parent": (None, ResponseNotFound),
    "stale_fence": (None, StaleFence),
    "other_version": ("3", VersionMismatch),
    "other_status": ("absent", StatusMismatch),
    "other_parent": (None, InvalidRequest),
    "too_deep": ("16777215", LimitExceeded),
}
CONDITION = Precondition(version=2, fence=Fence("s", 5))


def refused(name: str, actual: str | None) -> Outcome:
    return Outcome.of([(name, actual, None, None, None, None, None)])


@pytest.mark.parametrize("name", ERRORS)
def test_a_refusal_is_the_error_that_the_rules_know(name: str) -> None:
    actual, error = ERRORS[name]
    root = draft()
    record = draft(root)
    with pytest.raises(error) as caught:
        refused(name, actual).stamp(record, CONDITION)
    assert type(caught.value) is error
    if name == "no_parent":
        assert caught.value.facts["id"] == root.id
    with pytest.raises(error):
        refused(name, actual).require_removed(record.id, CONDITION)


def test_every_outcome_that_the_database_gives_is_known() -> None:
    scripts = "\n".join(step.script for step in migrations())
    given = set(re.findall(r"refused_v\d+\('(\w+)'", scripts)) | set(re.findall(r"SELECT ROW\('(\w+)'", scripts))
    assert given == set(ERRORS) | {STORED, AGAIN}


def test_what_is_stored_has_a_stamp() -> None:
    outcome = Outcome.of([(STORED, None, 3, (7 << 24) + 2, 10, 11, None)])
    assert outcome.stamp(draft(), CONDITION) == Stamp(3, 2, 10, 11, None)
    outcome.require_removed(draft().id, CONDITION)


def test_an_outcome_that_is_none_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="nonsense"):
        refused("nonsense", None).stamp(draft(), CONDITION)
