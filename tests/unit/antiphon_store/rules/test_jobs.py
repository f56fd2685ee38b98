"""The bounds themselves are allowed. `antiphon_store.testing.jobs` tests all other rules."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.ports.jobs import JobDraft
from antiphon_core.ports.store import Fence
from antiphon_store.rules import jobs as rules
from antiphon_store.testing.event_logs import new_id


def test_what_is_just_within_bounds_is_allowed() -> None:
    job_id, queue = new_id(), "Q.q_-" + "x" * (limits.QUEUE_NAME_CHARS_MAX - 5)
    payload = bytes(limits.JOB_PAYLOAD_BYTES_MAX)
    rules.check_draft(JobDraft(job_id, queue, payload, limits.JOB_ATTEMPTS_ITEMS_MAX, limits.JOB_DELAY_MS_MAX))
    rules.check_queue(queue, "queue")
    rules.check_job_fence(Fence(job_id, 1), "fence")
    rules.check_reason("ü" * limits.JOB_REASON_CHARS_MAX, "reason")
