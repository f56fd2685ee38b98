from __future__ import annotations

import pytest

from antiphon_core import events
from antiphon_core.errors import ServiceFault
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final
from antiphon_edge.turns.batch_order import BatchOrder

FINAL = Final(Status.COMPLETED, b"{}", b"[]")


def frames(*numbers: int) -> bytes:
    return b"".join(events.encode({"type": "x", "item": {}, "sequence_number": number}) for number in numbers)


def test_dense_batches_of_any_size_are_accepted() -> None:
    order = BatchOrder(7)
    for batch in (Batch(7, 1, frames(7)), Batch(8, 3, frames(8, 9, 10)), Batch(11, 2, frames(11, 12), FINAL)):
        order.check(batch)


@pytest.mark.parametrize(
    "batch",
    [
        Batch(0, 1, frames(0)),
        Batch(2, 1, frames(2)),
        Batch(1, 0, b""),
        Batch(1, 2, frames(1)),
        Batch(1, 1, frames(1, 2)),
        Batch(1, 1, frames(1)[:-1]),
        Batch(1, 1, frames(0)),
        Batch(1, 1, frames(10)),
        Batch(1, 2, frames(1, 1)),
        Batch(1, 1, b"event: x\ndata: {}\n\n"),
        Batch(1, 1, b""),
    ],
    ids=range(11),
)
def test_batch_that_does_not_follow_or_is_not_what_it_says_is_a_service_fault(batch: Batch) -> None:
    order = BatchOrder(0)
    order.check(Batch(0, 1, frames(0)))
    with pytest.raises(ServiceFault):
        order.check(batch)


def test_nothing_follows_the_terminal_batch() -> None:
    order = BatchOrder(0)
    order.check(Batch(0, 1, frames(0), FINAL))
    with pytest.raises(ServiceFault, match="after the terminal one"):
        order.check(Batch(1, 1, frames(1)))
