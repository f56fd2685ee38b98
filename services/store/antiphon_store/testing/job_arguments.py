"""Bad arguments of job calls: the error names the argument, in this process and over gRPC alike."""

# ruff: noqa: S101 - asserting is what a suite does

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest, TooLarge
from antiphon_core.ports.jobs import JobOutcome, Jobs
from antiphon_core.ports.store import Fence
from antiphon_store.testing.jobs import enqueue, jobs_of, new_draft
from antiphon_store.testing.subject import Subject

GOOD = new_draft()
FENCE = Fence(GOOD.id, 1)
Attempt = Callable[[Jobs, str], Awaitable[object]]


def enqueuing(**changes: object) -> Attempt:
    return lambda jobs, tenant: jobs.enqueue_job(tenant, replace(GOOD, **changes))  # type: ignore[arg-type]


def claiming(*queues: str, **options: object) -> Attempt:
    arguments = {"holder": "h", **options}
    return lambda jobs, tenant: jobs.claim_job(tenant, queues, **arguments)  # type: ignore[arg-type]


def settling(fence: Fence, reason: str = "") -> Attempt:
    return lambda jobs, tenant: jobs.settle_job(tenant, fence, JobOutcome.FAILED, reason=reason)


BAD_CALLS: list[tuple[str, Attempt]] = [
    ("id", enqueuing(id="job")),
    ("queue", enqueuing(queue="")),
    ("queue", enqueuing(queue="a b")),
    ("queue", enqueuing(queue="x" * (limits.QUEUE_NAME_CHARS_MAX + 1))),
    ("max_attempts", enqueuing(max_attempts=0)),
    ("max_attempts", enqueuing(max_attempts=limits.JOB_ATTEMPTS_ITEMS_MAX + 1)),
    ("run_after_ms", enqueuing(run_after_ms=-1)),
    ("run_after_ms", enqueuing(run_after_ms=limits.JOB_DELAY_MS_MAX + 1)),
    ("holder", enqueuing(holder="x" * (limits.HOLDER_BYTES_MAX + 1))),
    ("lease_ttl_ms", enqueuing(holder="h", lease_ttl_ms=limits.LEASE_TTL_MS_MIN - 1)),
    ("queues", claiming()),
    ("queues", claiming(*["q"] * (limits.CLAIM_QUEUES_ITEMS_MAX + 1))),
    ("queues[1]", claiming("q", "ü")),
    ("holder", claiming("q", holder="")),
    ("lease_ttl_ms", claiming("q", lease_ttl_ms=limits.LEASE_TTL_MS_MIN - 1)),
    ("wait_ms", claiming("q", wait_ms=-1)),
    ("wait_ms", claiming("q", wait_ms=limits.LEASE_WAIT_MS_MAX + 1)),
    ("fence.token", lambda jobs, tenant: jobs.heartbeat_job(tenant, Fence(GOOD.id, 0))),
    ("fence.session_id", lambda jobs, tenant: jobs.heartbeat_job(tenant, Fence("s", 1))),
    ("lease_ttl_ms", lambda jobs, tenant: jobs.heartbeat_job(tenant, FENCE, lease_ttl_ms=1)),
    ("fence.session_id", settling(Fence("", 1))),
    ("reason", settling(FENCE, "x" * (limits.JOB_REASON_CHARS_MAX + 1))),
    ("reason", settling(FENCE, "\ud800")),
    ("id", lambda jobs, tenant: jobs.cancel_job(tenant, "resp_1")),
    ("id", lambda jobs, tenant: jobs.describe_job(tenant, "resp_1")),
    ("tenant", lambda jobs, _tenant: jobs.cancel_job("", GOOD.id)),
]


class JobArgumentSuite:
    @pytest.mark.parametrize(
        ("field", "attempt"), BAD_CALLS, ids=[f"{number}-{field}" for number, (field, _) in enumerate(BAD_CALLS)]
    )
    async def test_an_invalid_argument_is_rejected_with_its_field(
        self, subject: Subject, field: str, attempt: Attempt
    ) -> None:
        with pytest.raises(InvalidRequest) as caught:
            await attempt(jobs_of(subject.store), subject.tenant)
        assert caught.value.field == field

    async def test_a_payload_over_the_limit_is_too_large(self, subject: Subject) -> None:
        with pytest.raises(TooLarge) as caught:
            await enqueue(subject, payload=bytes(limits.JOB_PAYLOAD_BYTES_MAX + 1))
        assert caught.value.field == "payload"
