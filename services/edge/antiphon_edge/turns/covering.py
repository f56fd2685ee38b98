"""Where a turn that is told with token ids can be cut: behind a batch whose ids led to all of its events.

Events without ids, such as those that close an item at the end, are told together with what follows them. Told alone
they would be told twice: whoever goes on from the ids so far comes by them again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from antiphon_core.ports.translator import Batch


async def whole_steps(batches: AsyncGenerator[Batch, None], *, has_ids: bool) -> AsyncGenerator[Batch, None]:
    """The batches, each without ids joined to the next one. Turns without any ids are left alone: they cannot be cut.

    `has_ids`: ids were told before."""
    held: list[Batch] = []
    async with aclosing(batches):
        async for batch in batches:
            has_ids = has_ids or bool(batch.token_ids)
            held.append(batch)
            if not has_ids or batch.token_ids or batch.final is not None:
                yield _joined(held)
                held = []


def _joined(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    first, last = batches[0], batches[-1]
    return Batch(
        first_sequence=first.first_sequence,
        count=sum(batch.count for batch in batches),
        frames=b"".join(batch.frames for batch in batches),
        final=last.final,
        token_ids=last.token_ids,
    )
