"""Writes as arguments of scripts, in the order of `parse_write` and `parse_append` in lua/parts."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote
from zlib import crc32

from antiphon_core.ports.event_logs import Checkpoint, EventAppend
from antiphon_core.ports.store import Fence, Precondition, Status
from antiphon_store.backends import packing
from antiphon_store.backends.base import LogEnd, Write

Argument = str | bytes | int

NONE = "."  # which no id is
EMPTY_ITEM_ID = "%"  # which nothing is quoted as
APPEND_ARGUMENTS = 7
PRECONDITION_FENCE = "precondition.fence.session_id"  # the field of a request


def write_arguments(write: Write) -> list[Argument]:
    record = write.record
    items, input_bytes = packing.pack(record.input_items, record.output_items)
    return [
        record.id,
        record.parent_id or NONE,
        record.session_id or NONE,
        record.status.value,
        len(record.body) + len(record.input_items) + len(record.output_items),
        input_bytes,
        packing.checksum(record.id, input_bytes, items),
        packing.body_checksum(record.id, record.body),
        items,
        record.body,
        NONE if write.ttl_ms is None else write.ttl_ms,
        quoted(write.item_ids),
        NONE if write.session_responses_max is None else write.session_responses_max,
        *condition_arguments(write.precondition),
        *_end_arguments(write.log_end),
    ]


def quoted(item_ids: Iterable[str]) -> str:
    """Ids of any characters as words: keys are named by them, and scripts split them at spaces."""
    return " ".join(quote(item_id, safe="", errors="surrogatepass") or EMPTY_ITEM_ID for item_id in item_ids)


def condition_arguments(condition: Precondition) -> list[Argument]:
    """Version, statuses and the fence."""
    return [
        NONE if condition.version is None else condition.version,
        _listed(condition.statuses),
        _listed(condition.unless_statuses),
        *fence_arguments(condition.fence),
    ]


def fence_arguments(fence: Fence | None) -> list[Argument]:
    return [NONE, NONE] if fence is None else [fence.session_id, fence.token]


def append_arguments(append: EventAppend, *, ttl_ms: int) -> list[Argument]:
    """What is stored of an append, with a CRC-32 of it that begins with the response's id; that id stands before."""
    terminal, checkpoint = int(append.terminal), write_checkpoint(append.checkpoint)
    head = f"{append.response_id}:{append.expected_position}:{append.count}:{terminal}:{checkpoint}"
    checksum = crc32(append.frames, crc32(head.encode()))
    return [append.expected_position, append.count, terminal, checkpoint, checksum, append.frames, ttl_ms]


def write_checkpoint(checkpoint: Checkpoint | None) -> str:
    """`offset:id,id`, or a dot for none."""
    if checkpoint is None:
        return NONE
    return f"{checkpoint.offset}:{','.join(map(str, checkpoint.token_ids))}"


def _end_arguments(end: LogEnd | None) -> list[Argument]:
    return [NONE] * APPEND_ARGUMENTS if end is None else append_arguments(end.append, ttl_ms=end.ttl_ms)


def _listed(statuses: Iterable[Status]) -> str:
    """`,a,b,`: a status is in it when it is found between commas."""
    joined = ",".join(sorted(statuses))
    return f",{joined}," if joined else NONE
