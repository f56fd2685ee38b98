from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.ports.event_logs import Checkpoint, EventAppend, EventBatch
from antiphon_store.event_logs import wire

numbers = st.integers(0, 2**31)
checkpoints = st.builds(Checkpoint, numbers, st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple))
appends = st.builds(
    EventAppend, st.text("abc"), numbers, numbers, st.binary(max_size=9), st.none() | checkpoints, st.booleans()
)
batches = st.builds(
    EventBatch, numbers, numbers, st.binary(max_size=9), st.booleans(), st.lists(checkpoints, max_size=2).map(tuple)
)


@given(appends, batches)
def test_values_survive_the_wire(append: EventAppend, batch: EventBatch) -> None:
    message = wire.to_append(append, None)
    assert wire.from_append(type(message).parse(bytes(message))) == append
    answer = wire.to_batch(batch)
    assert wire.from_batch(type(answer).parse(bytes(answer))) == batch
