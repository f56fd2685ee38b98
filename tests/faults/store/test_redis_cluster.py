"""One tenant on a Redis Cluster of three masters: its trees are spread evenly, and it survives the loss of a master."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from antiphon_core.ids import RandomIds, tree_tag
from antiphon_core.ports.jobs import JobDraft, JobOutcome
from antiphon_core.ports.lineage import ForkSource
from antiphon_core.ports.store import TurnCommit
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_store.testing.subject import content, draft, new_session_id, turn_in
from tests.support.redis_servers import NO_FILES, RedisCluster, RedisServer, redis_cluster, redis_rows, wait_until
from tests.support.volume import volume
from tests.support.waiting import with_retries

TENANT = "one"
TREES = volume(2_000, 10_000)
AT_ONCE = 200
MOST_UNEVEN = 0.2  # as a share of the mean of the masters
TURNS = volume(24, 60)  # trees that are used before and after a master is lost: each master has some of them


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with redis_cluster(NO_FILES, with_replicas=True) as cluster:
        yield cluster


def bytes_of_keys(server: RedisServer) -> int:
    """The memory of all keys and values of a server. Buffers of connections and replicas are not in it."""
    with server.client() as client, client.pipeline(transaction=False) as pipeline:
        for key in client.scan_iter(count=1_000):
            pipeline.memory_usage(key, samples=0)
        return sum(pipeline.execute())


async def test_trees_of_one_tenant_lie_evenly_on_all_masters(cluster: RedisCluster) -> None:
    """The responses have no expiry, because the list of expiries of a tenant is on one master."""
    backend = StoreService(redis_rows(cluster.url), StoreSettings(default_ttl_s=None))
    await backend.open()
    for _ in range(0, TREES, AT_ONCE):
        await asyncio.gather(*(backend.put(TENANT, draft()) for _ in range(AT_ONCE)))
    await backend.close()
    shares = [bytes_of_keys(master) for master in cluster.masters]
    mean = sum(shares) / len(shares)
    assert all(abs(share - mean) <= MOST_UNEVEN * mean for share in shares), shares


async def test_every_tree_goes_on_when_a_master_is_lost(cluster: RedisCluster) -> None:
    backend = StoreService(redis_rows(cluster.url))
    await backend.open()
    trees = [await Tree.begun(backend) for _ in range(TURNS)]
    lost, heir = cluster.masters[0], cluster.replicas[0]
    wait_until(lambda: offset_of(heir) >= offset_of(lost), "the replica has everything")
    lost.kill()
    with heir.client() as client:
        client.execute_command("CLUSTER", "FAILOVER", "TAKEOVER")  # type: ignore[no-untyped-call]
    for tree in trees:
        await tree.go_on(backend)
    await backend.close()


def offset_of(server: RedisServer) -> int:
    """The replication offset of a server."""
    with server.client() as client:
        found = client.info("replication")
    return int(found["master_repl_offset"] if found["role"] == "master" else found["slave_repl_offset"])


class Tree:
    """A session in its own tree, with a turn and a job."""

    def __init__(self) -> None:
        self.session_id = new_session_id()
        self.record = draft(tag=self.session_id, session_id=self.session_id)
        self.job = JobDraft(self.record.id, f"queue-{RandomIds().hex(8)}", b"{}")
        self.item_id = f"msg_{RandomIds().hex(48)}"

    @classmethod
    async def begun(cls, backend: StoreService) -> Tree:
        tree = cls()
        start = await backend.begin_turn(TENANT, turn_in(tree.session_id))
        assert start.lease is not None
        await backend.commit_turn(TENANT, TurnCommit(tree.record, start.lease.fence))
        await backend.enqueue_job(TENANT, tree.job)
        return tree

    async def go_on(self, backend: StoreService) -> None:
        """Continues the session, forks it and runs the job. Retries, because the first call may have to find the new
        master."""
        found = await with_retries(partial(backend.get, TENANT, self.record.id))
        assert content(found) == content(self.record)
        start = await with_retries(partial(backend.begin_turn, TENANT, turn_in(self.session_id)))
        assert start.lease is not None
        assert start.history.head_id == self.record.id
        child = draft(self.record, session_id=self.session_id)
        await with_retries(partial(backend.commit_turn, TENANT, TurnCommit(child, start.lease.fence)))
        fork = f"conv_{tree_tag(self.session_id)}{RandomIds().hex(32)}"
        made = await with_retries(partial(backend.fork, TENANT, ForkSource(self.session_id, None), new_session_id=fork))
        assert made.head_id == child.id
        claim = partial(backend.claim_job, TENANT, [self.job.queue], holder="h", lease_ttl_ms=60_000)
        job = await with_retries(claim)
        assert job is not None
        await with_retries(partial(backend.settle_job, TENANT, job.fence, JobOutcome.SUCCEEDED))
