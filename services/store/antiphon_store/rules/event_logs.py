"""Validation of arguments about event logs."""

from __future__ import annotations

from antiphon_core import limits
from antiphon_core.errors import TooLarge
from antiphon_core.ports.event_logs import Checkpoint, EventAppend
from antiphon_core.ports.store import LogEnd
from antiphon_store.frames import FRAME_END
from antiphon_store.rules.common import INT64_MAX, check_range, check_response_id, invalid

TOKEN_ID_MAX = 2**32 - 1


def check_append(append: EventAppend, _field: str = "", *, at: str = "") -> None:
    """Checks an append. `at` is a prefix for the names of its fields."""
    check_response_id(append.response_id, "response_id")
    check_range(append.count, 1, limits.APPEND_EVENTS_MAX, f"{at}count")
    check_range(append.expected_position, 0, INT64_MAX - append.count, f"{at}expected_position")
    if len(append.frames) > limits.APPEND_BYTES_MAX:
        raise TooLarge(
            f"The frames are {len(append.frames)} bytes long; at most {limits.APPEND_BYTES_MAX} are appended at once.",
            field=f"{at}frames",
        )
    _check_frames(append)
    if append.checkpoint is not None:
        _check_checkpoint(append.checkpoint)


def end_of_log(response_id: str, end: LogEnd, *, is_terminal: bool) -> EventAppend:
    """The events that a commit appends to the log of its response."""
    count = end.frames.count(FRAME_END)
    return EventAppend(response_id, end.expected_position, count, end.frames, terminal=is_terminal)


def check_log_end(response_id: str, end: LogEnd) -> None:
    append = end_of_log(response_id, end, is_terminal=True)
    if not append.count or not end.frames.endswith(FRAME_END):
        raise invalid("log_end.frames", "'log_end.frames' must be events, each closed by a blank line.")
    check_append(append, at="log_end.")


def _check_frames(append: EventAppend) -> None:
    """Checks the number of events, which are counted by their blank lines: a resumed read skips events by them."""
    found = append.frames.count(FRAME_END)
    if found != append.count or not append.frames.endswith(FRAME_END):
        raise invalid(
            "frames",
            f"'frames' must be {append.count} events, each closed by a blank line, but has {found} blank lines.",
        )


def _check_checkpoint(checkpoint: Checkpoint) -> None:
    check_range(checkpoint.offset, 0, INT64_MAX - limits.CHECKPOINT_ITEMS_MAX, "checkpoint.offset")
    check_range(len(checkpoint.token_ids), 0, limits.CHECKPOINT_ITEMS_MAX, "checkpoint.token_ids")
    if checkpoint.token_ids:
        check_range(min(checkpoint.token_ids), 0, TOKEN_ID_MAX, "checkpoint.token_ids")
        check_range(max(checkpoint.token_ids), 0, TOKEN_ID_MAX, "checkpoint.token_ids")
