"""One WebSocket connection without its socket: what comes in, what is answered, what runs next, when it is over.

Rules that hold here:

1. A lane runs one response at a time. What is asked of it meanwhile waits, in the order in which it came; only so much
   waits on a connection. A `stream_id` names a lane; messages without one are of the default lane.
2. Only so many lanes run at once. The message that waited for longest goes next, if its lane is free.
3. Responses that are not stored are remembered here (local_histories.py), and end with the connection.
4. A turn that fails takes the response that it continued out of that memory, if both are of one lane. The client begins
   anew, with its whole context, and need not guess what became of the failed turn. A turn that its client cancels
   takes nothing along.
5. A connection that is to close lets the running responses end, and says to each that waits that it will not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType

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
    LAST = auto()  # responses run, and the connection closes behind them
    OVER = auto()


class Step(Enum):
    """The steps from one phase to the next."""

    BEGIN = auto()
    END = auto()  # of a response while others run
    END_LAST = auto()
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
    """A response that a lane makes. Its request is not checked yet when it begins."""

    create: Create
    response_id: str | None = None
    """Known once the turn was accepted."""
    has_ended: bool = False
    """Whether its last message is made. The lane is free again when that message was sent."""

    @property
    def lane(self) -> str | None:
        return self.create.stream_id

    @property
    def generates(self) -> bool:
        """Whether the model is to say something."""
        return self.create.generates is not False

    def told(self, frames: bytes) -> list[bytes]:
        """Events of the response, as they are sent."""
        return socket_messages.told(frames, self.lane)


class Session:
    """The state of one connection."""

    def __init__(self, histories: LocalHistories | None = None, *, running_max: int = 1) -> None:
        """`running_max` lanes run at once."""
        self.phase = Phase.IDLE
        self._histories = histories or LocalHistories()
        self._running_max = running_max
        self._waiting: list[Create] = []
        self._running: dict[str | None, LaneTurn] = {}
        self._lanes: set[str] = set()
        self._closing: AntiphonError | None = None
        self._say_so = False

    def receive(self, message: Create | Steer) -> list[bytes]:
        """Takes a message of the client. Returns the answers that are sent at once."""
        if isinstance(message, Steer):
            return [socket_messages.steer_failed(message, self._lane_of(message.previous_response_id))]
        refusal = self._refusal_of(message)
        if refusal is not None:
            return [socket_messages.error(refusal, message.stream_id)]
        if message.stream_id is not None:
            self._lanes.add(message.stream_id)
        self._waiting.append(message)
        return []

    def turn_of(self, message: Cancel) -> LaneTurn | None:
        """The response that a client wants stopped; None when it has ended, or another one runs by now."""
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
        """Bytes of the messages that wait."""
        return sum(each.size_bytes for each in self._waiting)

    def begin(self) -> LaneTurn | None:
        """The next response, if one can begin. Whatever comes of it is told with `end` or `fail`, and then `leave`."""
        if self.phase not in (Phase.IDLE, Phase.RUNNING) or len(self._running) >= self._running_max:
            return None
        for place, create in enumerate(self._waiting):
            if create.stream_id not in self._running:
                self._step(Step.BEGIN)
                turn = self._running[create.stream_id] = LaneTurn(self._waiting.pop(place))
                return turn
        return None

    def carried_by(self, turn: LaneTurn) -> bytes | None:
        """The history of a turn that only this connection has. ChainTooLong."""
        return self._histories.get(turn.create.previous_id)

    def end(self, turn: LaneTurn, accepted: AcceptedTurn, final: Final) -> None:
        """A running response has its end."""
        if final.status not in _GOOD:
            self._histories.forget(turn.create.previous_id, lane=turn.lane)
        elif not accepted.keep:
            history = join_arrays([accepted.turn.history, accepted.turn.input, final.output_items])
            self._histories.remember(accepted.response_id, history, lane=turn.lane)
        turn.has_ended = True

    def fail(self, turn: LaneTurn, error: AntiphonError) -> list[bytes]:
        """A running response came to no end of its own; what is to be sent."""
        self._histories.forget(turn.create.previous_id, lane=turn.lane)
        return self._broken_off(turn, error)

    def cancel(self, turn: LaneTurn) -> list[bytes]:
        """A running response was stopped as its client asked; what is to be sent."""
        name = "The response" if turn.response_id is None else f"Response '{turn.response_id}'"
        error = InvalidRequest(f"{name} was cancelled by '{socket_messages.CANCEL}'.", code="response_cancelled")
        return self._broken_off(turn, error)

    def leave(self, turn: LaneTurn) -> None:
        """The lane of a turn is free: its last message was sent."""
        del self._running[turn.lane]
        self._step(Step.END if self._running else Step.END_LAST)

    def close(self, error: AntiphonError, *, say_so: bool) -> None:
        """Begins nothing any more: `error` is told to whatever waits, and with `say_so` in any case."""
        if self._closing is None:
            self._closing, self._say_so = error, say_so
        self._step(Step.CLOSE)

    def farewell(self) -> list[bytes]:
        """The last messages: to each response that was not begun; one if there is none and it is to be said."""
        if self._closing is None:
            return []
        untold = [each.stream_id for each in self._waiting] or ([None] if self._say_so else [])
        return [socket_messages.error(self._closing, stream_id) for stream_id in untold]

    def _lane_of(self, response_id: str) -> str | None:
        """The lane of a running response; None also for one that is not known here."""
        return next((lane for lane, turn in self._running.items() if turn.response_id == response_id), None)

    def _broken_off(self, turn: LaneTurn, error: AntiphonError) -> list[bytes]:
        turn.has_ended = True
        return [socket_messages.error(error, turn.lane)]

    def _step(self, step: Step) -> None:
        following = _NEXT.get((self.phase, step))
        if following is None:
            raise AssertionError(f"{step} is impossible in {self.phase}")
        self.phase = following

    def _refusal_of(self, message: Create) -> AntiphonError | None:
        if message.stream_id not in (None, *self._lanes) and len(self._lanes) >= SOCKET_LANES_ITEMS_MAX:
            return _TOO_MANY_LANES
        return None if self._has_room(message) else _QUEUE_FULL

    def _has_room(self, message: Create) -> bool:
        """Whether it can wait behind what waits already; one of any size always can."""
        waiting_bytes = self.waiting_bytes + message.size_bytes
        is_full = len(self._waiting) >= SOCKET_WAITING_ITEMS_MAX or waiting_bytes > BODY_BYTES_MAX
        return not (self._waiting and is_full)
