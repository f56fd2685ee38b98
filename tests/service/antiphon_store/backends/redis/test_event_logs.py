"""Event logs as they lie in Redis. What they do: tests/contract/store/test_suites.py."""

from __future__ import annotations

import pytest
import redis

from antiphon_core.clock import ManualClock
from antiphon_core.errors import InternalError, PositionMismatch
from antiphon_core.ports.event_logs import Checkpoint, EventAppend
from antiphon_store.backends.base import LogEnd, Write
from antiphon_store.backends.redis.backend import RedisBackend
from antiphon_store.backends.redis.calls import write_checkpoint
from antiphon_store.backends.redis.event_logs import read_batch, read_checkpoint
from antiphon_store.testing.subject import draft

HOUR_MS = 3600 * 1000


@pytest.mark.parametrize("checkpoint", [None, Checkpoint(0, ()), Checkpoint(7, (1, 2**32 - 1))])
def test_checkpoints_come_back(checkpoint: Checkpoint | None) -> None:
    assert read_checkpoint(write_checkpoint(checkpoint).encode()) == checkpoint


async def test_a_log_is_two_keys_that_the_server_reclaims(
    backend: RedisBackend, server: redis.Redis, tenant: str
) -> None:
    response_id = draft().id
    for position in range(3):
        append = EventAppend(response_id, position, 1, b"data: {}\n\n")
        assert await backend.append_events(tenant, append, fence=None, ttl_ms=HOUR_MS) == position + 1
    root = f"antiphon:{{{tenant}}}:{response_id[5:21]}"
    assert server.xlen(f"{root}:events:{response_id}") == 3
    for name in ("log", "events"):
        assert HOUR_MS < server.pttl(f"{root}:{name}:{response_id}") <= 2 * HOUR_MS


async def test_a_log_is_listed_by_when_it_expires(
    backend: RedisBackend, server: redis.Redis, tenant: str, clock: ManualClock
) -> None:
    record = draft()
    await backend.append_events(tenant, EventAppend(record.id, 0, 1, b"data: {}\n\n"), fence=None, ttl_ms=HOUR_MS)
    clock.advance(1)
    end = EventAppend(record.id, 1, 1, b"data: {}\n\n", terminal=True)
    await backend.put(tenant, Write(record, log_end=LogEnd(end, HOUR_MS)))
    assert server.zscore(f"antiphon:{{{tenant}}}::ends", f"l{record.id}") == clock.now_ms() + HOUR_MS


async def test_the_end_of_a_log_is_refused_before_anything_is_written(
    backend: RedisBackend, server: redis.Redis, tenant: str
) -> None:
    record = draft()
    end = EventAppend(record.id, 1, 1, b"data: {}\n\n", terminal=True)
    with pytest.raises(PositionMismatch):
        await backend.put(tenant, Write(record, log_end=LogEnd(end, HOUR_MS)))
    assert not server.keys(f"antiphon:{{{tenant}}}*")


async def test_an_end_that_was_appended_starts_a_log_anew_when_the_former_expired(
    backend: RedisBackend, tenant: str, clock: ManualClock
) -> None:
    record = draft()
    await backend.append_events(tenant, EventAppend(record.id, 0, 1, b"old"), fence=None, ttl_ms=HOUR_MS)
    clock.advance(HOUR_MS / 1000)
    end = EventAppend(record.id, 0, 1, b"new", terminal=True)
    await backend.put(tenant, Write(record, log_end=LogEnd(end, HOUR_MS)))
    page = await backend.read_log(tenant, record.id, position=0, max_bytes=100)
    assert [batch.frames for batch in page.batches] == [b"new"]


async def test_a_part_ends_with_the_batch_that_makes_it_long_enough(backend: RedisBackend, tenant: str) -> None:
    response_id = draft().id
    for position in range(80):
        append = EventAppend(response_id, position, 1, b"x" * 10, terminal=position == 79)
        await backend.append_events(tenant, append, fence=None, ttl_ms=HOUR_MS)
    page = await backend.read_log(tenant, response_id, position=3, max_bytes=25)
    assert [batch.first_sequence for batch in page.batches] == [3, 4, 5]
    page = await backend.read_log(tenant, response_id, position=1, max_bytes=10_000)
    assert [batch.first_sequence for batch in page.batches] == list(range(1, 80))
    assert (page.next_position, page.closed, page.batches[-1].terminal) == (80, True, True)


def test_damage_is_an_error_that_names_the_response() -> None:
    words = [b"count", b"1", b"terminal", b"0", b"checkpoint", b".", b"crc", b"1", b"frames", b"data: {}\n\n"]
    with pytest.raises(InternalError) as caught:
        read_batch("resp_1", b"1-0", words)
    assert caught.value.facts["id"] == "resp_1"
