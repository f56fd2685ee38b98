"""Checks of the ports' dataclasses. `antiphon_store.testing` tests the fields that errors name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest, TooLarge
from antiphon_core.ports.event_logs import Checkpoint, EventAppend
from antiphon_core.ports.jobs import JobDraft
from antiphon_core.ports.store import Fence, TurnCommit
from antiphon_store.rules import common
from antiphon_store.rules import values as rules
from antiphon_store.testing.subject import draft


def test_a_record_is_rejected_only_above_the_size_limit() -> None:
    record = draft(input_items=b"[]", output_items=b"[]")
    body = b" " * (limits.RECORD_BYTES_MAX - 4)
    rules.check_record(replace(record, body=body), "record")
    with pytest.raises(TooLarge):
        rules.check_record(replace(record, body=body + b" "), "record")


def test_a_session_of_another_tree_than_its_record_is_rejected() -> None:
    root = draft()
    tag = root.id.removeprefix("resp_")[:16]
    rules.check_record(draft(root, session_id="conv_" + tag + "0" * 32), "record")
    rules.check_record(draft(root, session_id="any-other-name"), "record")
    with pytest.raises(InvalidRequest, match="another tree"):
        rules.check_record(draft(root, session_id="conv_" + "0" * 48), "record")


def test_a_commit_with_the_fence_of_another_session_is_rejected() -> None:
    record = draft(session_id="s")
    rules.check_turn_commit(TurnCommit(record, Fence("s", 1)), "")
    with pytest.raises(InvalidRequest):
        rules.check_turn_commit(TurnCommit(record, Fence("other", 1)), "")


def test_an_append_just_within_bounds_is_allowed() -> None:
    most = limits.APPEND_EVENTS_MAX
    full = Checkpoint(2**62, (rules.TOKEN_ID_MAX,) * limits.CHECKPOINT_ITEMS_MAX)
    rules.check_append(EventAppend(draft().id, 2**63 - 1 - most, most, b":\n\n" * most, full, terminal=True), "")
    rules.check_append(
        EventAppend(draft().id, 0, 1, b"x" * (limits.APPEND_BYTES_MAX - 2) + b"\n\n", Checkpoint(0, ())), ""
    )


def test_a_job_just_within_bounds_is_allowed() -> None:
    job_id, queue = draft().id, "Q.q_-" + "x" * (limits.QUEUE_NAME_CHARS_MAX - 5)
    payload = bytes(limits.JOB_PAYLOAD_BYTES_MAX)
    rules.check_draft(JobDraft(job_id, queue, payload, limits.JOB_ATTEMPTS_ITEMS_MAX, limits.JOB_DELAY_MS_MAX), "")
    common.check_queue(queue, "queue")
    rules.check_job_fence(Fence(job_id, 1), "fence")
    common.check_reason("ü" * limits.JOB_REASON_CHARS_MAX, "reason")
