"""Where a stream with token ids can be cut: behind a batch whose ids led to all of its events.

Events without ids, such as those that close an item at the end, are joined to the batch that follows them. Sent alone
they would be sent twice: a translator that resumes from the ids so far makes them again.
"""

from __future__ import annotations

from antiphon_core.ports.translator import Batch


class ResumableBatches:
    """Joins batches so that the stream can be cut behind each. A stream without any ids is left as it is."""

    def __init__(self, *, has_ids: bool) -> None:
        """`has_ids`: the stream had ids before."""
        self._has_ids = has_ids
        self._held: list[Batch] = []

    def take(self, batch: Batch) -> Batch | None:
        """The batch that is complete now, if there is one."""
        if not self._held:
            if batch.token_ids:
                self._has_ids = True
                return batch
            if not self._has_ids or batch.final is not None:
                return batch
        self._held.append(batch)
        if not batch.token_ids and batch.final is None:
            return None
        held, self._held = self._held, []
        return _joined(held)


def _joined(batches: list[Batch]) -> Batch:
    first, last = batches[0], batches[-1]
    return Batch(
        first_sequence=first.first_sequence,
        count=sum(batch.count for batch in batches),
        frames=b"".join(batch.frames for batch in batches),
        final=last.final,
        token_ids=last.token_ids,
    )
