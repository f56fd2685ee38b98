"""The replies that are under way."""

import threading

from antiphon_tokens.load import Load
from antiphon_tokens.replies import Reply


class Running:
    """The replies of one model, from the arrival of a request to its last response. Safe to use from several
    threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._replies: set[Reply] = set()

    def add(self, reply: Reply) -> None:
        with self._lock:
            self._replies.add(reply)

    def remove(self, reply: Reply) -> None:
        with self._lock:
            self._replies.discard(reply)

    def find(self, request_id: str) -> list[Reply]:
        with self._lock:
            return [reply for reply in self._replies if reply.request_id == request_id]

    def idle(self) -> list[Reply]:
        """Those to which no token came since the last call."""
        with self._lock:
            found = [reply for reply in self._replies if reply.is_idle]
            for reply in self._replies:
                reply.is_idle = True
            return found

    def load(self, now_s: float) -> Load:
        """The load at a time of the monotonic clock."""
        with self._lock:
            waiting = [reply.arrived_s for reply in self._replies if reply.is_waiting]
            queue_s = now_s - min(waiting, default=now_s)
            return Load(len(self._replies) - len(waiting), len(waiting), max(0.0, queue_s))
