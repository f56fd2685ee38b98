"""The bounds themselves are allowed. `antiphon_store.testing.event_logs` tests all other rules."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.ports.event_logs import Checkpoint, EventAppend
from antiphon_store.rules import event_logs as rules
from antiphon_store.testing.event_logs import new_id


def test_what_is_just_within_bounds_is_allowed() -> None:
    most = limits.APPEND_EVENTS_MAX
    full = Checkpoint(2**62, (rules.TOKEN_ID_MAX,) * limits.CHECKPOINT_ITEMS_MAX)
    rules.check_append(EventAppend(new_id(), 2**63 - 1 - most, most, b":\n\n" * most, full, terminal=True))
    rules.check_append(EventAppend(new_id(), 0, 1, b"x" * (limits.APPEND_BYTES_MAX - 2) + b"\n\n", Checkpoint(0, ())))
