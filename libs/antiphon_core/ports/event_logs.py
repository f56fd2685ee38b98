"""The port of event logs: the stored events of responses, for replay, resume and follow.

A log belongs to a response id, whose record need not be stored yet. Its events are numbered from 0 without gaps; frames
are stored unchanged. An append with `terminal` closes the log. A log is deleted some time after its last append.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Protocol

from antiphon_core import limits
from antiphon_core.ports.checks import (
    INT64_MAX,
    ApprovalId,
    ResponseId,
    Tenant,
    bytes_up_to,
    check_in_tree,
    check_range,
    count_within,
    fitting,
    part,
    within,
)
from antiphon_core.ports.store import Fence, Frames, check_events

TOKEN_ID_MAX = 2**32 - 1
_SHORT_ID = fitting(
    lambda text: len(text) <= limits.ITEM_ID_CHARS_MAX, f"at most {limits.ITEM_ID_CHARS_MAX} characters"
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Token ids that the model generated. `offset` is the number of ids generated before them."""

    offset: Annotated[int, within(0, INT64_MAX - limits.CHECKPOINT_ITEMS_MAX)]
    token_ids: tuple[int, ...]

    def check(self, field: str) -> None:
        ids, at = self.token_ids, part(field, "token_ids")
        check_range(len(ids), at, 0, limits.CHECKPOINT_ITEMS_MAX)
        for extreme in (min(ids), max(ids)) if ids else ():
            check_range(extreme, at, 0, TOKEN_ID_MAX)


class StepKind(StrEnum):
    INTENT = "intent"
    """The calls of the round will be sent. One without a result may have been sent, and is not repeated."""
    RESULT = "result"
    """The call has ended."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a turn that calls tools of servers. `round` counts from 1, `call_id` is the id of the call's item, or
    empty for an intent. `data` is a JSON object."""

    round: Annotated[int, within(1, limits.TOOL_ROUNDS_ITEMS_MAX)]
    kind: StepKind
    call_id: Annotated[str, _SHORT_ID] = ""
    data: Annotated[bytes, bytes_up_to(limits.STEP_BYTES_MAX, "The data of the step are")] = b"{}"


@dataclass(frozen=True, slots=True)
class EventAppend:
    """`count` frames to append, each closed by a blank line, the first with the sequence number `expected_position`.

    `checkpoint` has the token ids since the last checkpoint, so that another process can continue the generation.
    `steps` are durable together with the frames. So is the mark of the approvals in `sends`: their calls are sent after
    this append.
    """

    response_id: ResponseId
    expected_position: int
    count: int
    frames: Frames
    checkpoint: Checkpoint | None = None
    terminal: bool = False
    steps: Annotated[Sequence[Step], count_within(0, limits.STEPS_ITEMS_MAX)] = ()
    sends: Annotated[Sequence[ApprovalId], count_within(0, limits.APPROVALS_ITEMS_MAX)] = ()

    def check(self, field: str) -> None:
        check_events(self.frames, self.count, self.expected_position, field)
        check_in_tree(self.sends, self.response_id, "sends")


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Consecutive events of a log. `terminal`: the last of them is the last event of the log."""

    first_sequence: int
    count: int
    frames: bytes
    terminal: bool = False
    checkpoints: tuple[Checkpoint, ...] = ()
    steps: tuple[Step, ...] = ()


class EventLogs(Protocol):
    """Every call belongs to one tenant; another tenant's logs do not exist for it."""

    async def append_events(self, tenant: Tenant, append: EventAppend, *, fence: Fence | None = None) -> int:
        """Appends events and returns the sequence number of the next one. Idempotent.

        `fence` is that of the session's lease, or of the job with the response's id. PositionMismatch: the log does not
        end right before `expected_position`. LogClosed: the log has its terminal event. StaleFence.
        ApprovalAlreadyUsed: the response does not have an approval of `sends` any more."""

    def read_events(
        self,
        tenant: Tenant,
        response_id: ResponseId,
        *,
        after: Annotated[int, within(0, INT64_MAX - 1)] | None = None,
        follow: bool = False,
    ) -> AsyncGenerator[EventBatch, None]:
        """Yields the events with a sequence number higher than `after` (None: all), in order and each once.

        Ends after the events that were stored when it began; with `follow` it waits for more, and ends after the
        terminal event. LogNotFound: the log was never written or is deleted, which can happen while following."""
