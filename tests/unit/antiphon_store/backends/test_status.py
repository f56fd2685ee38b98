from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core.errors import PreviousResponseNotReady
from antiphon_core.ports.store import Precondition, Status
from antiphon_store.backends import status
from antiphon_store.testing.subject import draft

RECORD = replace(draft(status=Status.FAILED), version=2, expires_at_ms=50)


@pytest.mark.parametrize(("version", "expected"), [(None, True), (1, True), (2, False), (0, False)])
def test_a_change_is_known_by_its_status_and_version(version: int | None, expected: bool) -> None:
    assert status.is_changed(RECORD, Status.FAILED, Precondition(version=version)) is expected
    assert not status.is_changed(RECORD, Status.CANCELLED, Precondition(version=version))


def test_what_must_not_exist_was_not_changed() -> None:
    assert not status.is_changed(replace(RECORD, version=1), Status.FAILED, Precondition(version=0))


def test_only_the_status_changes() -> None:
    changed = status.changed(RECORD, Status.CANCELLED, now_ms=9)
    assert changed == replace(RECORD, status=Status.CANCELLED, version=3, updated_at_ms=9)


@pytest.mark.parametrize("running", [Status.QUEUED, Status.IN_PROGRESS])
def test_what_may_still_say_something_is_not_continued(running: Status) -> None:
    with pytest.raises(PreviousResponseNotReady) as caught:
        status.require_ended(RECORD.id, running)
    assert caught.value.message.startswith(f"Response with id '{RECORD.id}' is still {running}.")


@pytest.mark.parametrize("ended", [Status.COMPLETED, Status.INCOMPLETE, Status.FAILED, Status.CANCELLED])
def test_whatever_has_ended_is_continued(ended: Status) -> None:
    status.require_ended(RECORD.id, ended)
