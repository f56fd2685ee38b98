from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest

from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final
from antiphon_edge.turns.resumable_batches import whole_steps

FINAL = Final(Status.COMPLETED, b"{}", b"[]")


def batch(number: int, *ids: int, final: Final | None = None) -> Batch:
    return Batch(number, 1, b"%d\n\n" % number, final, ids)


async def steps(batches: Sequence[Batch], *, has_ids: bool = False) -> list[Batch]:
    async def play() -> AsyncGenerator[Batch, None]:
        for each in batches:
            yield each

    return [each async for each in whole_steps(play(), has_ids=has_ids)]


async def test_batches_with_ids_and_turns_without_are_left_alone() -> None:
    with_ids = [batch(0), batch(1, 7), batch(2, 8, 9), batch(3, final=FINAL)]
    assert await steps(with_ids) == with_ids
    texts = [batch(0), batch(1), batch(2), batch(3, final=FINAL)]
    assert await steps(texts) == texts


async def test_events_without_ids_come_with_the_ids_or_the_end_behind_them() -> None:
    given = [batch(1, 7), batch(2), batch(3), batch(4, 8), batch(5), batch(6, final=FINAL)]
    assert await steps(given) == [
        batch(1, 7),
        Batch(2, 3, b"2\n\n3\n\n4\n\n", None, (8,)),
        Batch(5, 2, b"5\n\n6\n\n", FINAL),
    ]


async def test_what_goes_on_with_ids_told_elsewhere_is_held_from_the_start() -> None:
    assert await steps([batch(2), batch(3, final=FINAL)], has_ids=True) == [Batch(2, 2, b"2\n\n3\n\n", FINAL)]


async def test_what_is_held_when_the_stream_breaks_is_told_by_who_goes_on() -> None:
    async def play() -> AsyncGenerator[Batch, None]:
        yield batch(1, 7)
        yield batch(2)
        raise OSError

    told = whole_steps(play(), has_ids=False)
    assert await anext(told) == batch(1, 7)
    with pytest.raises(OSError):
        await anext(told)
