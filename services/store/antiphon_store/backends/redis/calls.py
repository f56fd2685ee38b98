"""Writes as arguments of scripts. The order is that of `parse_write` in lua/parts/writing.lua."""

from __future__ import annotations

from collections.abc import Iterable

from antiphon_core.ports.store import Fence, Precondition, Status
from antiphon_store.backends import packing
from antiphon_store.backends.base import Write

Argument = str | bytes | int

NONE = "-"


def write_arguments(write: Write, fence: Fence | None) -> list[Argument]:
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
        *condition_arguments(write.precondition, fence),
    ]


def condition_arguments(condition: Precondition, fence: Fence | None) -> list[Argument]:
    """Version, statuses and token; which session the token is of, its key says."""
    return [
        NONE if condition.version is None else condition.version,
        _listed(condition.statuses),
        _listed(condition.unless_statuses),
        NONE if fence is None else fence.token,
    ]


def _listed(statuses: Iterable[Status]) -> str:
    """`,a,b,`: a status is in it when it is found between commas."""
    joined = ",".join(sorted(statuses))
    return f",{joined}," if joined else NONE
