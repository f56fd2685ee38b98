"""Jobs as they lie in Redis. What they do: tests/contract/store/test_suites.py and test_jobs_model.py."""

from __future__ import annotations

import pytest
import redis

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InternalError, JobNotFound, Unimplemented
from antiphon_core.ports.jobs import JobDraft, JobOutcome
from antiphon_core.ports.store import Fence
from antiphon_store.backends.redis.addresses import Address, Topology
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.backends.redis.keys import Partition
from antiphon_store.testing.jobs import new_draft

HOUR_MS = 3600 * 1000
TTL_MS = 500


async def enqueue(backend: RedisBackend, tenant: str, **members: object) -> JobDraft:
    job = new_draft(**members)  # type: ignore[arg-type]
    await backend.enqueue_job(tenant, job, retention_ms=HOUR_MS)
    return job


async def claim(backend: RedisBackend, tenant: str, *queues: str, holder: str = "a") -> str | None:
    job = await backend.claim_job(tenant, queues or ("q",), holder=holder, lease_ttl_ms=TTL_MS)
    return job.id if job else None


def root(tenant: str) -> str:
    return f"antiphon:{{{tenant}}}:"


def job_key(tenant: str, job: JobDraft) -> str:
    return f"{root(tenant)}{job.id[5:21]}:job:{job.id}"


async def test_a_queue_is_sorted_by_when_its_jobs_can_be_claimed(
    backend: RedisBackend, server: redis.Redis, tenant: str, clock: ManualClock
) -> None:
    born_ms = clock.now_ms()
    last, held = [await enqueue(backend, tenant, max_attempts=most) for most in (1, 2)]
    clock.advance(0.001)
    delayed = await enqueue(backend, tenant, run_after_ms=10)
    for holder in "ab":
        await claim(backend, tenant, holder=holder)
    queue = f"{root(tenant)}:queue:q"
    assert server.zscore(queue, last.id) is None
    assert server.zscore(queue, held.id) == born_ms + 1 + TTL_MS
    assert server.zscore(queue, delayed.id) == born_ms + 11


async def test_what_ended_is_listed_by_when_it_may_be_forgotten(
    backend: RedisBackend, server: redis.Redis, tenant: str, clock: ManualClock
) -> None:
    ends = f"{root(tenant)}:ends"
    job = await enqueue(backend, tenant, max_attempts=1)
    assert server.zscore(ends, f"j{job.id}") is None
    assert server.pttl(job_key(tenant, job)) == -1
    await claim(backend, tenant)  # its last attempt: time will end it
    assert server.zscore(ends, f"j{job.id}") == clock.now_ms() + TTL_MS + HOUR_MS
    clock.advance(0.1)
    await backend.settle_job(tenant, Fence(job.id, 1), JobOutcome.SUCCEEDED, "")
    assert server.zscore(ends, f"j{job.id}") == clock.now_ms() + HOUR_MS
    assert HOUR_MS < server.pttl(job_key(tenant, job)) <= 2 * HOUR_MS
    assert not server.exists(f"{root(tenant)}:queue:q", f"{root(tenant)}:held:q")


async def test_an_id_that_is_used_again_is_listed_once(
    backend: RedisBackend, server: redis.Redis, tenant: str, clock: ManualClock
) -> None:
    job = await enqueue(backend, tenant, max_attempts=1)
    await claim(backend, tenant, holder="a")
    clock.advance((TTL_MS + HOUR_MS) / 1000)
    await backend.enqueue_job(tenant, JobDraft(job.id, "r", b"anew"), retention_ms=HOUR_MS)
    assert server.zscore(f"{root(tenant)}:ends", f"j{job.id}") is None
    assert server.pttl(job_key(tenant, job)) == -1
    assert not server.exists(f"{root(tenant)}:held:q")
    assert await claim(backend, tenant, "q") is None
    assert await claim(backend, tenant, "q", "r") == job.id


async def test_a_holder_that_lost_a_job_keeps_its_next_one(
    backend: RedisBackend, tenant: str, clock: ManualClock
) -> None:
    lost = await enqueue(backend, tenant, max_attempts=1)
    assert await claim(backend, tenant) == lost.id
    clock.advance(TTL_MS / 1000)
    following = await enqueue(backend, tenant)
    assert await claim(backend, tenant) == following.id
    await backend.cancel_job(tenant, lost.id)  # writes what time made of it
    other = await enqueue(backend, tenant)
    assert await claim(backend, tenant) == following.id
    assert await claim(backend, tenant, holder="b") == other.id


async def test_holders_that_never_come_back_are_forgotten(
    backend: RedisBackend, server: redis.Redis, tenant: str
) -> None:
    held = f"{root(tenant)}:held:q"
    await enqueue(backend, tenant)
    await claim(backend, tenant)
    assert 0 < server.pttl(held) <= HOUR_MS + TTL_MS
    assert server.hlen(held) == 1


async def test_a_job_that_the_server_evicted_blocks_nobody(
    backend: RedisBackend, server: redis.Redis, tenant: str, clock: ManualClock
) -> None:
    gone = await enqueue(backend, tenant)
    clock.advance(0.001)
    job = await enqueue(backend, tenant)
    server.delete(job_key(tenant, gone))
    assert [await claim(backend, tenant) for _ in range(2)] == [None, job.id]
    with pytest.raises(JobNotFound):
        await backend.describe_job(tenant, gone.id)


async def test_a_holder_has_a_job_only_in_the_queue_that_it_is_in(
    backend: RedisBackend, server: redis.Redis, tenant: str
) -> None:
    job = await enqueue(backend, tenant)
    await claim(backend, tenant, "q")
    server.delete(job_key(tenant, job))  # as the server does some time after it was forgotten
    await backend.enqueue_job(tenant, JobDraft(job.id, "r", b"anew"), retention_ms=HOUR_MS)
    assert await claim(backend, tenant, "r") == job.id
    assert await claim(backend, tenant, "q") is None


async def test_damage_is_an_error_that_names_the_job(backend: RedisBackend, server: redis.Redis, tenant: str) -> None:
    job = await enqueue(backend, tenant)
    server.hset(job_key(tenant, job), "payload", b"damaged")
    with pytest.raises(InternalError) as caught:
        await claim(backend, tenant)
    assert caught.value.facts["id"] == job.id


async def test_where_trees_are_spread_there_are_no_jobs(tenant: str) -> None:
    spread = RedisBackend(Address(Topology.CLUSTER, (("127.0.0.1", 1),), partition=Partition.TREE))
    job = new_draft()
    fence = Fence(job.id, 1)
    attempts = {
        "EnqueueJob": spread.enqueue_job(tenant, job, retention_ms=HOUR_MS),
        "ClaimJob": spread.claim_job(tenant, ["q"], holder="a", lease_ttl_ms=TTL_MS),
        "HeartbeatJob": spread.heartbeat_job(tenant, fence, lease_ttl_ms=TTL_MS),
        "SettleJob": spread.settle_job(tenant, fence, JobOutcome.FAILED, ""),
        "CancelJob": spread.cancel_job(tenant, job.id),
        "Jobs": spread.describe_job(tenant, job.id),
    }
    for rpc, attempt in attempts.items():
        with pytest.raises(Unimplemented, match=f"^{rpc} on a Redis Cluster partitioned by tree"):
            await attempt
