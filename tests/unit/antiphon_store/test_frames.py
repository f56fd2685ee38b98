from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.ports.event_logs import Checkpoint, EventBatch
from antiphon_store.frames import join_batches, without_first

frames = st.lists(st.binary(min_size=1, max_size=5).map(lambda text: text.replace(b"\n", b"") + b"\n\n"), min_size=1)


@given(frames, st.data())
def test_without_first_removes_whole_frames(parts: list[bytes], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(parts)))
    assert without_first(b"".join(parts), count) == b"".join(parts[count:])


def test_removing_more_frames_than_there_are_raises_an_error() -> None:
    with pytest.raises(ValueError, match="not found"):
        without_first(b"a\n\n", 2)


@given(frames, st.data())
def test_joined_batches_have_all_frames_and_checkpoints_however_they_were_cut(
    parts: list[bytes], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(parts)))) | {0, len(parts)})
    batches = [
        EventBatch(10 + start, end - start, b"".join(parts[start:end]), end == len(parts), (Checkpoint(start, ()),))
        for start, end in pairwise(cuts)
    ]
    skipped = data.draw(st.integers(0, batches[0].count - 1))
    whole = join_batches(batches, 10 + skipped)
    assert (whole.first_sequence, whole.count) == (10 + skipped, len(parts) - skipped)
    assert whole.frames == b"".join(parts[skipped:])
    assert whole.terminal
    assert [checkpoint.offset for checkpoint in whole.checkpoints] == cuts[:-1]
