"""Validation of arguments about jobs."""

from __future__ import annotations

import re

from antiphon_core import limits
from antiphon_core.ports.jobs import DISPATCH_QUEUE, JobDraft
from antiphon_core.ports.store import UNFINISHED, Fence, Record, TurnJob
from antiphon_store.rules.common import (
    check_fence,
    check_lease_ttl,
    check_range,
    check_response_id,
    check_size,
    invalid,
    is_text,
)

_QUEUE = re.compile(rf"[A-Za-z0-9._-]{{1,{limits.QUEUE_NAME_CHARS_MAX}}}")


def check_draft(draft: JobDraft, _field: str = "", *, at: str = "") -> None:
    """Checks a draft. `at` is a prefix for the names of its fields."""
    check_response_id(draft.id, f"{at}id")
    check_queue(draft.queue, f"{at}queue")
    check_range(draft.max_attempts, 1, limits.JOB_ATTEMPTS_ITEMS_MAX, f"{at}max_attempts")
    check_range(draft.run_after_ms, 0, limits.JOB_DELAY_MS_MAX, f"{at}run_after_ms")
    check_size("The payload is", len(draft.payload), limits.JOB_PAYLOAD_BYTES_MAX, f"{at}payload")


def turn_job(record: Record, job: TurnJob) -> JobDraft:
    """The job of a turn that a worker will run."""
    return JobDraft(record.id, DISPATCH_QUEUE, job.payload, max_attempts=job.max_attempts)


def check_turn_job(record: Record, job: TurnJob) -> None:
    if record.status not in UNFINISHED:
        raise invalid("record.status", "A response with a job must not have ended.")
    check_draft(turn_job(record, job), at="job.")
    check_lease_ttl(job.lease_ttl_ms, "job.lease_ttl_ms")


def check_job_fence(fence: Fence, field: str) -> None:
    """A job's fence has its id as `session_id`."""
    check_fence(fence, field)
    check_response_id(fence.session_id, f"{field}.session_id")


def check_reason(reason: str, field: str) -> None:
    """Checks that a reason has a UTF-8 encoding, which lone surrogates lack, and is not too long."""
    if (reason and not is_text(reason)) or len(reason) > limits.JOB_REASON_CHARS_MAX:
        raise invalid(field, f"'{field}' must be text of at most {limits.JOB_REASON_CHARS_MAX} characters.")


def check_queue(queue: str, field: str) -> None:
    if not _QUEUE.fullmatch(queue):
        raise invalid(
            field,
            f"'{field}' must be 1 to {limits.QUEUE_NAME_CHARS_MAX} letters, digits, dots, underscores and hyphens.",
        )
