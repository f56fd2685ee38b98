"""How much of something long goes into one answer: so many values, so many bytes."""

from __future__ import annotations

from collections.abc import Iterable

from antiphon_core.errors import LimitExceeded
from antiphon_core.ports.store import Record
from antiphon_store.values import Slice


def size_bytes(record: Record) -> int:
    return len(record.body) + len(record.input_items) + len(record.output_items)


def take_records(records: Iterable[Record], *, limit: int, max_bytes: int) -> Slice[Record]:
    """The first records that fit, at least one; no more are drawn than it takes to know whether there are more."""
    taken: list[Record] = []
    total_bytes = 0
    for record in records:
        total_bytes += size_bytes(record)
        if len(taken) == limit or (taken and total_bytes > max_bytes):
            return Slice(taken, has_more=True)
        taken.append(record)
    return Slice(taken)


class ByteBudget:
    """Counts the bytes of an answer that must be whole or not at all."""

    def __init__(self, max_bytes: int, *, field: str) -> None:
        self._max_bytes = max_bytes
        self._field = field
        self._used_bytes = 0

    def use(self, size: int) -> None:
        """LimitExceeded: past the limit. Nothing is ever cut silently."""
        self._used_bytes += size
        if self._used_bytes > self._max_bytes:
            raise LimitExceeded(
                f"What '{self._field}' asks for is over the limit of {self._max_bytes} bytes. Ask for fewer at a time.",
                field=self._field,
                limit=f"{self._max_bytes} bytes",
            )


def require_nodes(response_id: str, nodes: int, *, max_nodes: int) -> None:
    """LimitExceeded: more responses lie below one than a walk takes."""
    if nodes > max_nodes:
        raise LimitExceeded(
            f"More than {max_nodes} responses are in the tree below '{response_id}'. Ask for a part of it.",
            field="id",
            limit=f"{max_nodes} responses",
        )
