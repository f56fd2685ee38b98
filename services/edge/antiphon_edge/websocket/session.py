"""One WebSocket connection without its socket: what comes in, what is answered, what runs next, when it is over.

Rules that hold here:

1. One response runs at a time. What is asked for meanwhile waits, in the order in which it came; only so much waits.
2. Responses that are not stored are remembered here (local_histories.py), and end with the connection.
3. A turn that fails takes the response that it continued out of that memory. The client begins anew, with its whole
   context, and need not guess what became of the failed turn.
4. A connection that is to close lets the running response end, and says to each that waits that it will not run.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

from antiphon_core.errors import AntiphonError, InvalidRequest
from antiphon_core.jsons import join_arrays
from antiphon_core.limits import BODY_BYTES_MAX, SOCKET_WAITING_ITEMS_MAX
from antiphon_core.ports.store import Status
from antiphon_core.ports.translator import Final
from antiphon_edge.turns.accepted_turn import AcceptedTurn
from antiphon_edge.websocket import messages as socket_messages
from antiphon_edge.websocket.local_histories import LocalHistories
from antiphon_edge.websocket.messages import Create, Steer


class Phase(Enum):
    IDLE = auto()
    RUNNING = auto()
    LAST = auto()  # a response runs, and the connection closes behind it
    OVER = auto()


class Step(Enum):
    BEGIN = auto()
    END = auto()
    CLOSE = auto()


_NEXT = {
    (Phase.IDLE, Step.BEGIN): Phase.RUNNING,
    (Phase.IDLE, Step.CLOSE): Phase.OVER,
    (Phase.RUNNING, Step.END): Phase.IDLE,
    (Phase.RUNNING, Step.CLOSE): Phase.LAST,
    (Phase.LAST, Step.END): Phase.OVER,
    (Phase.LAST, Step.CLOSE): Phase.LAST,
    (Phase.OVER, Step.CLOSE): Phase.OVER,
}
_GOOD = (Status.COMPLETED, Status.INCOMPLETE)
_QUEUE_FULL = InvalidRequest(
    "Too many responses wait on this connection. Send the next one when one has ended.", code="websocket_queue_full"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A response to be made, whose request is not checked yet. `carried` is the history that only this connection has;
    without `generates` nothing is to be said."""

    create: Create
    carried: bytes | None
    generates: bool


class Session:
    """The state of one connection."""

    def __init__(self, histories: LocalHistories | None = None) -> None:
        self.phase = Phase.IDLE
        self._histories = histories or LocalHistories()
        self._waiting: deque[Create] = deque()
        self._running: Create | None = None
        self._closing: AntiphonError | None = None
        self._say_so = False

    def receive(self, message: Create | Steer) -> list[bytes]:
        """Takes a message of the client. Returns the answers that are sent at once."""
        if isinstance(message, Steer):
            return [socket_messages.steer_failed(message)]
        if not self._has_room(message):
            return [socket_messages.error(_QUEUE_FULL, message.stream_id)]
        self._waiting.append(message)
        return []

    @property
    def has_next(self) -> bool:
        """Whether a response can begin."""
        return self.phase is Phase.IDLE and bool(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the messages that wait."""
        return sum(each.size_bytes for each in self._waiting)

    def begin(self) -> Asked:
        """The next response. Whatever comes of it is told with `end` or `fail`, also what is raised here.

        ChainTooLong."""
        self._step(Step.BEGIN)
        self._running = running = self._waiting.popleft()
        return Asked(running, self._histories.get(running.previous_id), running.generates is not False)

    def told(self, frames: bytes) -> list[bytes]:
        """Events of the running response, as they are sent."""
        return socket_messages.told(frames, self._current.stream_id)

    def end(self, accepted: AcceptedTurn, final: Final) -> None:
        """The running response has its end."""
        if final.status not in _GOOD:
            self._histories.forget(self._current.previous_id)
        elif not accepted.keep:
            history = join_arrays([accepted.turn.history, accepted.turn.input, final.output_items])
            self._histories.remember(accepted.response_id, history)
        self._leave()

    def fail(self, error: AntiphonError) -> list[bytes]:
        """The running response came to no end of its own; what is to be sent."""
        failed = self._current
        self._histories.forget(failed.previous_id)
        self._leave()
        return [socket_messages.error(error, failed.stream_id)]

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

    @property
    def _current(self) -> Create:
        if self._running is None:
            raise AssertionError("no response is running")
        return self._running

    def _leave(self) -> None:
        self._running = None
        self._step(Step.END)

    def _step(self, step: Step) -> None:
        following = _NEXT.get((self.phase, step))
        if following is None:
            raise AssertionError(f"{step} is impossible in {self.phase}")
        self.phase = following

    def _has_room(self, message: Create) -> bool:
        """Whether it can wait behind what waits already; one of any size always can."""
        waiting_bytes = self.waiting_bytes + message.size_bytes
        is_full = len(self._waiting) >= SOCKET_WAITING_ITEMS_MAX or waiting_bytes > BODY_BYTES_MAX
        return not (self._waiting and is_full)
