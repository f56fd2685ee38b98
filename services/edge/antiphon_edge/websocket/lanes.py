"""The state of one WebSocket connection, without its socket: waiting requests, running responses, and its phase.

Rules that hold here:

1. A lane runs one response at a time. Requests that arrive meanwhile wait in their order; a connection bounds their
   number and bytes. A `stream_id` names a lane; messages without one belong to the default lane.
2. A connection runs `running_max` lanes at once. The next response is the one that has waited longest among those whose
   lane is free.
3. Responses that are not stored are remembered here (local_histories.py) until the connection ends.
4. A turn that fails removes the response that it continued from that memory, if both were made on the same lane. The
   client then sends its whole context again, and need not find out how far the failed turn came. A turn that its client
   cancels removes nothing.
5. A connection that is to close lets running responses end. Each waiting request is answered with an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType

from antiphon_core.abandoned_calls import as_history
from antiphon_core.errors import AntiphonError, InvalidRequest
from antiphon_core.jsons import join_arrays
from antiphon_core.limits import BODY_BYTES_MAX, SOCKET_LANES_ITEMS_MAX, SOCKET_WAITING_ITEMS_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Final
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.websocket import messages as socket_messages
from antiphon_edge.websocket.local_histories import LocalHistories
from antiphon_edge.websocket.messages import Cancel, Create, Steer


class Phase(Enum):
    """The phases of a connection."""

    IDLE = auto()
    RUNNING = auto()
    LAST = auto()  # responses still run; the connection closes after the last of them
    OVER = auto()


class Step(Enum):
    """The steps from one phase to the next."""

    BEGIN = auto()
    END = auto()  # a response ended, others still run
    END_LAST = auto()  # the last running response ended
    CLOSE = auto()


_NEXT = {
    (Phase.IDLE, Step.BEGIN): Phase.RUNNING,
    (Phase.IDLE, Step.CLOSE): Phase.OVER,
    (Phase.RUNNING, Step.BEGIN): Phase.RUNNING,
    (Phase.RUNNING, Step.END): Phase.RUNNING,
    (Phase.RUNNING, Step.END_LAST): Phase.IDLE,
    (Phase.RUNNING, Step.CLOSE): Phase.LAST,
    (Phase.LAST, Step.END): Phase.LAST,
    (Phase.LAST, Step.END_LAST): Phase.OVER,
    (Phase.LAST, Step.CLOSE): Phase.LAST,
    (Phase.OVER, Step.CLOSE): Phase.OVER,
}
_GOOD = (Status.COMPLETED, Status.INCOMPLETE)
_QUEUE_FULL = InvalidRequest(
    "Too many responses wait on this connection. Send the next one when one has ended.", code="websocket_queue_full"
)
_TOO_MANY_LANES = InvalidRequest(
    "This WebSocket connection has reached its maximum number of distinct stream IDs "
    f"({SOCKET_LANES_ITEMS_MAX}). Reuse an existing stream_id or open a new WebSocket connection.",
    field="stream_id",
    code="websocket_stream_limit_reached",
)


@dataclass(eq=False, slots=True)
class LaneTurn:
    """A running response of a lane. Its request is validated only after it began (`Create.request`)."""

    create: Create
    response_id: str | None = None
    """Known once the turn was accepted."""
    has_ended: bool = False
    """Whether the response has its end: its record is stored, or being stored. The lane stays taken until the last
    message was sent (`leave`)."""

    def note_end(self) -> None:
        """Takes note that the response has its end. A cancel comes too late from then on."""
        self.has_ended = True

    @property
    def lane(self) -> str | None:
        return self.create.stream_id

    def messages_of(self, frames: bytes) -> list[bytes]:
        """The events in `frames`, as messages of this lane."""
        return socket_messages.messages_of(frames, self.lane)


class Lanes:
    """The lanes of one connection: what waits, what runs, and its phase."""

    def __init__(self, histories: LocalHistories | None = None, *, running_max: int = 1) -> None:
        """`running_max`: how many lanes run at once."""
        self.phase = Phase.IDLE
        self._histories = histories or LocalHistories()
        self._running_max = running_max
        self._waiting: list[Create] = []
        self._running: dict[str | None, LaneTurn] = {}
        self._lane_names: set[str] = set()
        self._closing: AntiphonError | None = None
        self._say_so = False

    def receive(self, message: Create | Steer) -> list[bytes]:
        """Takes a message of the client. Returns the messages to answer at once; none for a request that may wait."""
        if isinstance(message, Steer):
            return [socket_messages.steer_failed(message, self._lane_of(message.previous_response_id))]
        rejection = self._rejection_of(message)
        if rejection is not None:
            return [socket_messages.error(rejection, message.stream_id)]
        if message.stream_id is not None:
            self._lane_names.add(message.stream_id)
        self._waiting.append(message)
        return []

    def turn_of(self, message: Cancel) -> LaneTurn | None:
        """The running response that a client wants to cancel; None if it has ended, or another one runs on the lane."""
        turn = self._running.get(message.stream_id)
        if turn is None or turn.has_ended or message.response_id not in (None, turn.response_id):
            return None
        return turn

    @property
    def running(self) -> Mapping[str | None, LaneTurn]:
        """The turns that run, by their lanes."""
        return MappingProxyType(self._running)

    @property
    def waiting_bytes(self) -> int:
        """The size of all waiting requests."""
        return sum(each.size_bytes for each in self._waiting)

    def begin(self) -> LaneTurn | None:
        """Begins the next response; None if none can begin. The caller then reports its outcome with `end`, `fail` or
        `cancel`, and calls `leave` when its last message was sent."""
        if self.phase not in (Phase.IDLE, Phase.RUNNING) or len(self._running) >= self._running_max:
            return None
        for index, create in enumerate(self._waiting):
            if create.stream_id not in self._running:
                self._step(Step.BEGIN)
                turn = self._running[create.stream_id] = LaneTurn(self._waiting.pop(index))
                return turn
        return None

    def carried_by(self, turn: LaneTurn) -> bytes | None:
        """The history that a turn continues, if it is remembered here; None if the store may have it. ChainTooLong: the
        history was too large to be remembered."""
        return self._histories.get(turn.create.previous_id)

    def end(self, turn: LaneTurn, accepted: AcceptedTurn, final: Final) -> None:
        """Takes the terminal event of a running response, and remembers its history if it is not stored."""
        if final.status not in _GOOD:
            self._histories.forget(turn.create.previous_id, lane=turn.lane)
        elif not accepted.is_stored:
            output = as_history(final.output_items, final.status)
            history = join_arrays([accepted.turn.history, accepted.turn.input, output])
            self._histories.remember(accepted.response_id, history, lane=turn.lane)
        turn.note_end()

    def fail(self, turn: LaneTurn, error: AntiphonError) -> list[bytes]:
        """Ends a running response that failed without a terminal event. Returns the messages to send."""
        self._histories.forget(turn.create.previous_id, lane=turn.lane)
        return self._broken_off(turn, error)

    def cancel(self, turn: LaneTurn) -> list[bytes]:
        """Ends a running response that its client cancelled. Returns the messages to send."""
        name = "The response" if turn.response_id is None else f"Response '{turn.response_id}'"
        error = InvalidRequest(f"{name} was cancelled by '{socket_messages.CANCEL}'.", code="response_cancelled")
        return self._broken_off(turn, error)

    def leave(self, turn: LaneTurn) -> None:
        """Frees the lane of a turn whose last message was sent."""
        del self._running[turn.lane]
        self._step(Step.END if self._running else Step.END_LAST)

    def close(self, error: AntiphonError, *, say_so: bool) -> None:
        """Lets no further response begin. `error` is the reason that `farewell` gives to each waiting request; with
        `say_so` it is sent once even if none waits. The first reason stands."""
        if self._closing is None:
            self._closing, self._say_so = error, say_so
        self._step(Step.CLOSE)

    def farewell(self) -> list[bytes]:
        """The last messages of a connection that closes: the reason for each waiting request, on its lane."""
        if self._closing is None:
            return []
        stream_ids = [each.stream_id for each in self._waiting] or ([None] if self._say_so else [])
        return [socket_messages.error(self._closing, stream_id) for stream_id in stream_ids]

    def _lane_of(self, response_id: str) -> str | None:
        """The lane of a running response; None for the default lane, and for a response that does not run here."""
        return next((lane for lane, turn in self._running.items() if turn.response_id == response_id), None)

    def _broken_off(self, turn: LaneTurn, error: AntiphonError) -> list[bytes]:
        turn.note_end()
        return [socket_messages.error(error, turn.lane)]

    def _step(self, step: Step) -> None:
        following = _NEXT.get((self.phase, step))
        if following is None:
            raise AssertionError(f"{step} is impossible in {self.phase}")
        self.phase = following

    def _rejection_of(self, message: Create) -> AntiphonError | None:
        if message.stream_id not in (None, *self._lane_names) and len(self._lane_names) >= SOCKET_LANES_ITEMS_MAX:
            return _TOO_MANY_LANES
        return None if self._has_room(message) else _QUEUE_FULL

    def _has_room(self, message: Create) -> bool:
        """Whether a request may wait with those that already do. Alone it may have any size."""
        waiting_bytes = self.waiting_bytes + message.size_bytes
        is_full = len(self._waiting) >= SOCKET_WAITING_ITEMS_MAX or waiting_bytes > BODY_BYTES_MAX
        return not (self._waiting and is_full)
