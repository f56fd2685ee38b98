"""The event logs of the Redis engine: a stream of batches beside a hash that says where the log ends.

An entry's number is that of its first event plus one. Each carries a CRC-32 of all that it says, beginning with the
response's id.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from zlib import crc32

from antiphon_core.errors import InternalError
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch
from antiphon_core.ports.store import Fence
from antiphon_core.telemetry import remedies
from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.calls import append_arguments, fence_arguments
from antiphon_store.backends.redis.engine import Engine
from antiphon_store.backends.roles.event_logs import LogPage

log = logging.getLogger(__name__)


class RedisEventLogs:
    """Implements `roles.event_logs.EventLogAtoms` for RedisBackend."""

    async def append_events(self: Engine, tenant: str, append: EventAppend, *, fence: Fence | None, ttl_ms: int) -> int:
        keys = self._record_keys(tenant, append.response_id, (fence, "fence.session_id"))
        arguments = [append.response_id, *append_arguments(append, ttl_ms=ttl_ms), *fence_arguments(fence)]
        (next_position,) = await self._run(scripts.APPEND_EVENTS, tenant, keys, arguments)
        return int(next_position)

    async def read_log(self: Engine, tenant: str, response_id: str, *, position: int, max_bytes: int) -> LogPage:
        keys = [self._keys.tree_root(tenant, response_id)]
        answer = await self._run(scripts.READ_LOG, tenant, keys, [response_id, position, max_bytes])
        next_position, closed, entries = answer
        batches = tuple(read_batch(response_id, entry_id, words) for entry_id, words in entries)
        return LogPage(batches, next_position, bool(closed))


def read_batch(response_id: str, entry_id: bytes, words: Sequence[bytes]) -> EventBatch:
    """An entry of the stream. InternalError: its bytes are not those that were written."""
    first_sequence = int(entry_id.partition(b"-")[0]) - 1
    _, count, _, terminal, _, checkpoint, _, crc, _, frames = words
    head = b"%s:%d:%s:%s:%s" % (response_id.encode(), first_sequence, count, terminal, checkpoint)
    if crc32(frames, crc32(head)) != int(crc):
        log.error(
            "the stored events of %s from %d on are damaged", response_id, first_sequence, extra=remedies.RESTORE_DATA
        )
        raise InternalError(f"The stored events of '{response_id}' are damaged.", id=response_id)
    found = read_checkpoint(checkpoint)
    return EventBatch(
        first_sequence=first_sequence,
        count=int(count),
        frames=frames,
        terminal=terminal == b"1",
        checkpoints=() if found is None else (found,),
    )


def read_checkpoint(text: bytes) -> Checkpoint | None:
    """What `calls.write_checkpoint` wrote."""
    offset, colon, token_ids = text.partition(b":")
    if not colon:
        return None
    return Checkpoint(int(offset), tuple(map(int, token_ids.split(b","))) if token_ids else ())
