"""Batches that a client may be sent: after each of them, another translator can resume the stream.

A translator resumes from the token ids so far, and makes the events that follow them. Events in a batch without ids,
such as those that close an item at the end, would be made again and sent twice. So they wait, and are joined to the
next batch with ids or to the terminal one.
"""

from __future__ import annotations

from antiphon_core.ports.translator import Batch


class ResumableBatches:
    """Joins batches so that the stream can resume after each. A stream without any ids is left as it is."""

    def __init__(self, *, has_ids: bool) -> None:
        """`has_ids`: the response already has token ids, from another translator or another edge."""
        self._has_ids = has_ids
        self._held: list[Batch] = []

    @property
    def held_bytes(self) -> int:
        """The size of the batches that wait."""
        return sum(len(batch.frames) for batch in self._held)

    def take(self, batch: Batch) -> Batch | None:
        """Takes the next batch before the terminal one. Returns the batch to send, or None while the batch has to wait
        for ids."""
        if batch.token_ids:
            self._has_ids = True
            return self.end(batch)
        if not self._has_ids:
            return batch
        self._held.append(batch)
        return None

    def end(self, batch: Batch) -> Batch:
        """Joins the batches that wait to `batch`, which can be sent."""
        held, self._held = [*self._held, batch], []
        return _joined(held) if len(held) > 1 else batch


def _joined(batches: list[Batch]) -> Batch:
    first, last = batches[0], batches[-1]
    return Batch(
        first_sequence=first.first_sequence,
        count=sum(batch.count for batch in batches),
        frames=b"".join(batch.frames for batch in batches),
        final=last.final,
        token_ids=last.token_ids,
    )
