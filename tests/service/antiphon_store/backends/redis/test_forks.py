"""Forks as they lie in Redis. What they mean: the suites of lineage."""

from __future__ import annotations

import pytest
import redis

from antiphon_core.clock import ManualClock
from antiphon_core.errors import (
    AlreadyExists,
    InternalError,
    InvalidRequest,
    NotFound,
    PreviousResponseNotReady,
    ResponseNotFound,
    SessionLocked,
)
from antiphon_core.ports.lineage import Fork, ForkSource
from antiphon_core.ports.store import NO_PRECONDITION
from antiphon_store.backends.base import Write
from antiphon_store.backends.redis import forks
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.testing.subject import draft
from tests.support.redis_servers import backend_at, shared_cluster


async def test_a_fork_is_a_session_and_a_count(backend: RedisBackend, server: redis.Redis, tenant: str) -> None:
    record = draft()
    await backend.put(tenant, Write(record))
    before = set(server.scan_iter(f"antiphon:{{{tenant}}}*", count=10_000))
    await backend.fork(tenant, ForkSource(None, record.id), "new")
    root = backend._keys.tree_root(tenant, record.id)
    added = set(server.scan_iter(f"antiphon:{{{tenant}}}*", count=10_000)) - before
    assert added == {backend._keys.session_key(tenant, "new"), f"{root}:heads"}
    assert server.hget(f"{root}:heads", record.id) == "1"
    await backend.fork(tenant, ForkSource(None, record.id), "new")
    assert server.hget(f"{root}:heads", record.id) == "1"


async def test_a_fork_keeps_a_deleted_response_and_its_end_lets_go(
    backend: RedisBackend, server: redis.Redis, tenant: str, clock: ManualClock
) -> None:
    record = draft()
    await backend.put(tenant, Write(record, ttl_ms=1000))
    assert await backend.fork(tenant, ForkSource(None, record.id), "new") == Fork("new", record.id)
    await backend.remove(tenant, record.id, NO_PRECONDITION)
    assert (await backend.describe_session(tenant, "new")).head_id == record.id
    clock.advance(1)
    assert (await backend.sweep(tenant, limit=9)).records == 1
    assert (await backend.describe_session(tenant, "new")).head_id is None


FACTS: dict[type[Exception], list[object]] = {
    NotFound: [b"", b"", b"", b"", 0],
    AlreadyExists: [b"resp_head", b"", b"", b"resp_other", 0],
    SessionLocked: [b"resp_head", b"", b"", b"", 1],
}


@pytest.mark.parametrize("error", FACTS)
def test_the_rules_say_why(error: type[Exception]) -> None:
    with pytest.raises(error):
        forks._explain(ForkSource("source", None), "new", FACTS[error])


def test_a_response_of_another_session_is_named() -> None:
    source = ForkSource("source", "resp_1")
    with pytest.raises(ResponseNotFound):
        forks._explain(source, "new", [b"", b"", b"", b"", 0])
    with pytest.raises(InvalidRequest) as caught:
        forks._explain(source, "new", [b"resp_2", b"completed", b"other", b"", 0])
    assert caught.value.field == "up_to_response_id"


def test_a_response_that_runs_is_named_with_its_status() -> None:
    with pytest.raises(PreviousResponseNotReady) as caught:
        forks._explain(ForkSource(None, "resp_1"), "new", [b"", b"queued", b"", b"", 0])
    assert caught.value.facts == {"id": "resp_1", "status": "queued"}


def test_a_refusal_without_a_reason_is_our_bug() -> None:
    with pytest.raises(InternalError):
        forks._explain(ForkSource("source", None), "new", [b"resp_head", b"", b"", b"", 0])


async def test_on_a_spread_cluster_a_fork_stays_in_its_tree(tenant: str) -> None:
    backend = backend_at(f"{shared_cluster().url}?partition=tree")
    await backend.open()
    root = draft()
    await backend.put(tenant, Write(root))
    kin = root.id.replace("resp_", "conv_")
    assert await backend.fork(tenant, ForkSource(None, root.id), kin) == Fork(kin, root.id)
    sibling = kin[:-1] + ("0" if kin[-1] != "0" else "1")
    assert await backend.fork(tenant, ForkSource(kin, None), sibling) == Fork(sibling, root.id)
    other = draft().id.replace("resp_", "conv_")
    for field, source, target in (
        ("new_session_id", ForkSource(None, root.id), "chat"),
        ("new_session_id", ForkSource(kin, None), other),
        ("session_id", ForkSource("chat", None), "chat-2"),
        ("session_id", ForkSource(other, root.id), kin),
    ):
        with pytest.raises(InvalidRequest) as caught:
            await backend.fork(tenant, source, target)
        assert caught.value.field == field
    await backend.close()
