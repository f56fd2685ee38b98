from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch
from antiphon_core.ports.store import Fence
from antiphon_store.event_logs import wire
from tests.support.sent import sent

numbers = st.integers(0, 2**31)
checkpoints = st.builds(Checkpoint, numbers, st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple))
appends = st.builds(
    EventAppend, st.text("abc"), numbers, numbers, st.binary(max_size=9), st.none() | checkpoints, st.booleans()
)
fences = st.none() | st.builds(Fence, st.text("abc"), numbers)
batches = st.builds(
    EventBatch, numbers, numbers, st.binary(max_size=9), st.booleans(), st.lists(checkpoints, max_size=2).map(tuple)
)


@given(appends, fences, batches)
def test_values_survive_the_wire(append: EventAppend, fence: Fence | None, batch: EventBatch) -> None:
    message = sent(wire.to_append(append, fence))
    assert wire.from_append(message) == append
    assert wire.from_append_fence(message) == fence
    assert wire.from_batch(sent(wire.to_batch(batch))) == batch
