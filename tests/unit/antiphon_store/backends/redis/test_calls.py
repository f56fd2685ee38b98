from __future__ import annotations

from antiphon_core.ports.store import NO_PRECONDITION, Fence, Precondition, Status
from antiphon_store.backends import packing
from antiphon_store.backends.base import Write
from antiphon_store.backends.redis.calls import condition_arguments, write_arguments
from antiphon_store.testing.subject import draft


def test_nothing_is_asked_of_what_has_no_precondition() -> None:
    assert condition_arguments(NO_PRECONDITION, None) == ["-", "-", "-", "-"]


def test_a_precondition_in_words() -> None:
    condition = Precondition(0, frozenset({Status.QUEUED, Status.IN_PROGRESS}), frozenset({Status.FAILED}))
    assert condition_arguments(condition, Fence("s", 7)) == [0, ",in_progress,queued,", ",failed,", 7]


def test_a_write_has_as_many_words_as_the_scripts_read() -> None:
    record = draft(draft(), session_id="s")
    arguments = write_arguments(Write(record, ttl_ms=5), None)
    items, input_bytes = packing.pack(record.input_items, record.output_items)
    assert len(arguments) == 15
    assert arguments[:4] == [record.id, record.parent_id, "s", "completed"]
    assert arguments[4] == len(record.body) + len(record.input_items) + len(record.output_items)
    assert arguments[5] == input_bytes
    assert arguments[8:11] == [items, record.body, 5]


def test_what_is_not_there_is_a_hyphen() -> None:
    arguments = write_arguments(Write(draft()), None)
    assert (arguments[1], arguments[2], arguments[10]) == ("-", "-", "-")
