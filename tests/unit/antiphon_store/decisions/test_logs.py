"""Event logs, case by case. `antiphon_store.testing.event_logs` tests them through a store."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from antiphon_core.errors import InternalError, LogNotFound, PositionMismatch
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch
from antiphon_core.ports.store import Fence
from antiphon_store.decisions import logs
from antiphon_store.rows.model import Condition, Index, Kind, Now, Put, Row
from antiphon_store.rows.view import View
from tests.support.rows import NOW_MS, answered, decided, fields_of, guards_on, row, shown

LOG = (Kind.LOG, "resp_1")
FIRST = EventAppend("resp_1", 0, 2, b"a\n\nb\n\n", Checkpoint(3, (1,)))
NEXT = replace(FIRST, expected_position=2, count=1, frames=b"c\n\n", checkpoint=None)
OPEN = row(next=2, closed=0, until=NOW_MS + 50, size=6)
CLOSED = row(next=2, closed=1, until=NOW_MS + 50, size=6)
OVER = row(next=2, closed=1, until=NOW_MS, size=6)
FENCE = Fence("s", 7)


def batch(append: EventAppend, **fields: object) -> Row:
    """The row that an append has made."""
    (put,) = [
        each
        for each in decided(partial(logs.append, append=append, fence=None, ttl_ms=1)).changes
        if isinstance(each, Put) and each.ref.kind is Kind.BATCH
    ]
    return Row({**put.fields, "v": 1, **fields}, put.items)


def append(what: EventAppend, fence: Fence | None = None) -> Any:
    return partial(logs.append, append=what, fence=fence, ttl_ms=100)


def test_a_log_begins_in_one_program() -> None:
    program = decided(append(FIRST))
    assert guards_on(program, Kind.LOG) == [(Condition.ABSENT, "", None)]
    assert shown(program) == [
        ("file", Index.ENDS, "", "log/resp_1"),
        ("put", Kind.BATCH, "resp_1/000000000000"),
        ("put", *LOG),  # a new row with its own `v`, so that no sweeper confuses it with the log before
    ]
    fields = fields_of(program, Kind.LOG)
    assert (fields["next"], fields["closed"], fields["until"], fields["size"]) == (2, 0, Now(100), 6)


def test_a_log_goes_on_in_one_program() -> None:
    program = decided(append(replace(NEXT, terminal=True), FENCE))
    assert guards_on(program, Kind.LOG) == [
        (Condition.IS, "next", 2),
        (Condition.IS, "closed", 0),
        (Condition.AHEAD, "until", None),
    ]
    assert guards_on(program, Kind.SESSION) == [(Condition.IS, "fence", 7), (Condition.AHEAD, "lease_until", None)]
    assert shown(program) == [("put", Kind.BATCH, "resp_1/000000000002"), ("set", *LOG)]
    assert fields_of(program, Kind.LOG)["closed"] == 1


@pytest.mark.parametrize("log", [None, OVER])
def test_a_missing_or_expired_log_begins_anew_and_only_at_position_zero(log: Row | None) -> None:
    with pytest.raises(PositionMismatch) as caught:
        decided(append(NEXT), {LOG: log})
    assert caught.value.facts["actual"] == "0"
    changes = shown(decided(append(FIRST), {LOG: log}))
    if log is not None:
        assert changes[1] == ("delete_below", Kind.BATCH, "resp_1/")
    assert changes[-2:] == [("put", Kind.BATCH, "resp_1/000000000000"), ("put", *LOG)]


@pytest.mark.parametrize("log", [OPEN, CLOSED])
def test_a_repeated_append_is_answered_without_a_lease_even_if_the_log_is_closed(log: Row) -> None:
    rows = {LOG: log, (Kind.BATCH, "resp_1/000000000000"): batch(FIRST, v=4), (Kind.SESSION, "s"): None}
    assert answered(partial(logs.append, append=FIRST, fence=FENCE, ttl_ms=1), rows) == 2


@pytest.mark.parametrize(
    "other",
    [
        replace(FIRST, frames=b"a\n\nB\n\n"),
        replace(FIRST, count=1),
        replace(FIRST, terminal=True),
        replace(FIRST, checkpoint=None),
    ],
)
def test_a_different_batch_at_a_used_position_is_rejected(other: EventAppend) -> None:
    with pytest.raises(PositionMismatch):
        decided(append(other), {LOG: OPEN, (Kind.BATCH, "resp_1/000000000000"): batch(FIRST)})


@pytest.mark.parametrize("log", [None, OVER])
def test_a_missing_or_expired_log_is_not_found(log: Row | None) -> None:
    with pytest.raises(LogNotFound):
        decided(partial(logs.read, log_id="resp_1", position=0, max_bytes=9), {LOG: log})


def read(position: int, *batches: tuple[str, Row]) -> tuple[EventBatch, ...]:
    page = logs.read(View({}), "resp_1", position=position, max_bytes=9)([OPEN, list(batches)])
    assert (page.next_position, page.is_closed) == (2, False)
    return page.batches


def test_a_page_has_the_appended_batch_that_holds_its_position() -> None:
    stored = ("resp_1/000000000000", batch(FIRST))
    assert read(1, stored) == (EventBatch(0, 2, FIRST.frames, False, (Checkpoint(3, (1,)),)),)
    assert read(2, stored) == ()  # the log ends there


def test_damaged_frames_are_noticed() -> None:
    stored = batch(FIRST)
    for row_id, found in (
        ("resp_1/000000000000", stored._replace(items=b"a\n\nB\n\n")),
        ("resp_1/000000000001", stored),
        ("resp_2/000000000000", stored),
    ):
        with pytest.raises(InternalError):
            read(0, (row_id, found))
