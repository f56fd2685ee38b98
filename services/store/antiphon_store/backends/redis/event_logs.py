"""The event logs of the Redis engine: a stream of batches beside a hash that says where the log ends.

An entry's number is that of its first event plus one. Each carries a CRC-32 of all that it says, beginning with the
response's id.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol
from zlib import crc32

from antiphon_core.errors import InternalError
from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch
from antiphon_core.ports.store import Fence
from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.calls import NONE, Argument
from antiphon_store.backends.redis.keys import Keyspace
from antiphon_store.backends.roles.event_logs import LogPage

log = logging.getLogger(__name__)


class _Engine(Protocol):
    """What the engine has for its topics."""

    _keys: Keyspace

    async def _run(
        self,
        script: scripts.Script,
        tenant: str,
        keys: Sequence[str],
        arguments: Sequence[Argument],
        *,
        fence: Fence | None = None,
    ) -> Sequence[Any]: ...


class RedisEventLogs:
    """Implements `roles.event_logs.EventLogAtoms` for RedisBackend."""

    async def append_events(
        self: _Engine, tenant: str, append: EventAppend, *, fence: Fence | None, ttl_ms: int
    ) -> int:
        keys = self._keys.log_keys(tenant, append.response_id)
        if fence is not None:
            self._keys.require_together(append.response_id, fence.session_id, field="fence.session_id")
            keys.append(self._keys.session_key(tenant, fence.session_id))
        terminal, checkpoint = int(append.terminal), write_checkpoint(append.checkpoint)
        head = f"{append.response_id}:{append.expected_position}:{append.count}:{terminal}:{checkpoint}"
        arguments: list[Argument] = [
            append.response_id,
            append.expected_position,
            append.count,
            terminal,
            checkpoint,
            crc32(append.frames, crc32(head.encode())),
            append.frames,
            ttl_ms,
            NONE if fence is None else fence.token,
        ]
        (next_position,) = await self._run(scripts.APPEND_EVENTS, tenant, keys, arguments, fence=fence)
        return int(next_position)

    async def read_log(self: _Engine, tenant: str, response_id: str, *, position: int, max_bytes: int) -> LogPage:
        keys = self._keys.log_keys(tenant, response_id)
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
        log.error("the stored events of %s from %d on are damaged", response_id, first_sequence)
        raise InternalError(f"The stored events of '{response_id}' are damaged.", id=response_id)
    found = read_checkpoint(checkpoint)
    return EventBatch(
        first_sequence=first_sequence,
        count=int(count),
        frames=frames,
        terminal=terminal == b"1",
        checkpoints=() if found is None else (found,),
    )


def write_checkpoint(checkpoint: Checkpoint | None) -> str:
    """`offset:id,id`, or a hyphen for none."""
    if checkpoint is None:
        return NONE
    return f"{checkpoint.offset}:{','.join(map(str, checkpoint.token_ids))}"


def read_checkpoint(text: bytes) -> Checkpoint | None:
    offset, colon, token_ids = text.partition(b":")
    if not colon:
        return None
    return Checkpoint(int(offset), tuple(map(int, token_ids.split(b","))) if token_ids else ())
