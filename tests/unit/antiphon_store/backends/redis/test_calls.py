from __future__ import annotations

import re
from importlib.resources import files

from antiphon_core.ports.event_logs import Checkpoint, EventAppend
from antiphon_core.ports.store import NO_PRECONDITION, Fence, Precondition, Status
from antiphon_store.backends import packing
from antiphon_store.backends.base import LogEnd, Write
from antiphon_store.backends.redis.calls import (
    append_arguments,
    condition_arguments,
    fence_arguments,
    quoted,
    write_arguments,
    write_checkpoint,
)
from antiphon_store.testing.subject import draft

PARTS = files("antiphon_store.backends.redis") / "lua" / "parts"


def names_in_lua() -> list[str]:
    """What `parse_write` calls the arguments of a write, before those of the log's end."""
    names = re.search(r"local names = \{(.*?)\}", (PARTS / "writing.lua").read_text(encoding="utf-8"), re.DOTALL)
    assert names is not None
    return re.findall(r"'(\w+)'", names.group(1))


def test_nothing_is_asked_of_what_has_no_precondition() -> None:
    assert condition_arguments(NO_PRECONDITION) == [".", ".", ".", ".", "."]


def test_a_precondition_in_words() -> None:
    statuses = frozenset({Status.QUEUED, Status.IN_PROGRESS})
    condition = Precondition(0, statuses, frozenset({Status.FAILED}), Fence("s", 7))
    assert condition_arguments(condition) == [0, ",in_progress,queued,", ",failed,", "s", 7]


def test_a_write_has_the_words_that_the_scripts_read() -> None:
    record = draft(draft(), session_id="s")
    write = Write(record, Precondition(fence=Fence("f", 3)), ttl_ms=5, item_ids=("a", "b c"), session_responses_max=9)
    names = names_in_lua()
    arguments = write_arguments(write)
    words = dict(zip(names, arguments[: len(names)], strict=True))
    items, input_bytes = packing.pack(record.input_items, record.output_items)
    assert (words["id"], words["parent"], words["session"]) == (record.id, record.parent_id, "s")
    assert words["size"] == len(record.body) + len(record.input_items) + len(record.output_items)
    assert (words["items"], words["input_bytes"], words["body"]) == (items, input_bytes, record.body)
    assert (words["ttl_ms"], words["item_ids"], words["session_most"]) == (5, "a b%20c", 9)
    assert (words["fence_id"], words["fence_token"]) == ("f", 3)
    assert arguments[len(names) :] == ["."] * 7


def test_what_is_not_there_is_a_hyphen() -> None:
    words = dict(zip(names_in_lua(), write_arguments(Write(draft())), strict=False))
    absent = {"parent", "session", "ttl_ms", "session_most", "fence_id", "fence_token"}
    assert {name for name, word in words.items() if word == "."} == absent | {
        "version",
        "statuses",
        "unless_statuses",
    }


def test_the_end_of_a_log_comes_behind_the_write() -> None:
    record = draft()
    end = EventAppend(record.id, 2, 3, b"frames", terminal=True)
    arguments = write_arguments(Write(record, log_end=LogEnd(end, 50)))
    assert arguments[len(names_in_lua()) :] == append_arguments(end, ttl_ms=50)


def test_an_append_in_words() -> None:
    append = EventAppend("resp_1", 2, 3, b"frames", Checkpoint(4, (5, 6)), terminal=True)
    *head, checksum, frames, ttl_ms = append_arguments(append, ttl_ms=50)
    assert (head, frames, ttl_ms) == ([2, 3, 1, "4:5,6"], b"frames", 50)
    other = append_arguments(EventAppend("resp_2", 2, 3, b"frames", Checkpoint(4, (5, 6)), terminal=True), ttl_ms=50)
    assert checksum != other[4]


def test_a_checkpoint_in_words() -> None:
    assert [write_checkpoint(each) for each in (None, Checkpoint(0, ()), Checkpoint(1, (2,)))] == [".", "0:", "1:2"]


def test_no_fence_is_two_hyphens() -> None:
    assert (fence_arguments(None), fence_arguments(Fence("s", 1))) == ([".", "."], ["s", 1])


def test_item_ids_are_words() -> None:
    assert quoted(("a", "", "b c")) == "a % b%20c"
