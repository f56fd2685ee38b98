from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Batch, Final
from antiphon_edge.turns.resumable_batches import ResumableBatches

FINAL = Final(Status.COMPLETED, b"{}", b"[]")


def batch(number: int, *ids: int, final: Final | None = None) -> Batch:
    return Batch(number, 1, b"%d\n\n" % number, final, ids)


def joined(batches: Sequence[Batch], *, has_ids: bool = False) -> list[Batch]:
    joining = ResumableBatches(has_ids=has_ids)
    sent = [joining.take(each) if each.final is None else joining.end(each) for each in batches]
    return [each for each in sent if each is not None]


def test_batches_with_ids_and_streams_without_ids_are_left_alone() -> None:
    with_ids = [batch(0), batch(1, 7), batch(2, 8, 9), batch(3, final=FINAL)]
    assert joined(with_ids) == with_ids
    texts = [batch(0), batch(1), batch(2), batch(3, final=FINAL)]
    assert joined(texts) == texts


def test_events_without_ids_are_joined_to_the_ids_or_the_end_behind_them() -> None:
    given = [batch(1, 7), batch(2), batch(3), batch(4, 8), batch(5), batch(6, final=FINAL)]
    assert joined(given) == [
        batch(1, 7),
        Batch(2, 3, b"2\n\n3\n\n4\n\n", None, (8,)),
        Batch(5, 2, b"5\n\n6\n\n", FINAL),
    ]


def test_a_stream_whose_ids_were_sent_elsewhere_is_joined_from_the_start() -> None:
    assert joined([batch(2), batch(3, final=FINAL)], has_ids=True) == [Batch(2, 2, b"2\n\n3\n\n", FINAL)]


def test_held_events_are_not_sent_when_the_stream_breaks() -> None:
    assert joined([batch(1, 7), batch(2)]) == [batch(1, 7)]
