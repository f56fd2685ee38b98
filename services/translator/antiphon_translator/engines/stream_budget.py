"""Bounds the bytes of an engine's stream that bring nothing of an answer: keep-alives, empty deltas, padding.

Keep-alives of a slow server must pass for an hour, so their rate is bounded, and not their sum. Without a bound, a
server that sends nothing else keeps a stream busy until its timeout, at the speed of its network: 60 MB/s of comments,
each of two bytes that are split, compared and dropped.

Bytes count as they are read, so an event is idle until it is complete. Content earns more bytes than any known server
needs for it: an event of vLLM has 250 bytes for a token, and 3 KB with 20 alternatives. Text that a reader holds back
is content, too: models write white space and calls for minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from antiphon_core.errors import EngineFault
from antiphon_core.limits import ENGINE_IDLE_BYTES_MAX, ENGINE_IDLE_BYTES_PER_S

PIECE_CHARS = 256
"""The characters that a piece of content counts as, be it a token or a delta, beside those of its text."""
CHAR_BYTES = 64
"""Bytes that a character of content may take: six of an escape, in several members that repeat it."""


class StreamBudget:
    """The budget of one stream. `server` names the server in the error."""

    def __init__(self, server: str, time: Callable[[], float] = monotonic) -> None:
        self._server = server
        self._time = time
        self._idle_bytes = 0
        self._since = time()

    def note(self, size_bytes: int, content_chars: int) -> None:
        """Counts bytes that were read, and the content in them.

        Raises:
            EngineFault: too many bytes brought nothing.
        """
        idle_bytes = self._idle_bytes + size_bytes - CHAR_BYTES * content_chars
        if idle_bytes <= 0:  # nearly always
            self._idle_bytes = 0
        elif idle_bytes <= ENGINE_IDLE_BYTES_MAX:
            self._idle_bytes = idle_bytes
        else:
            self._idle_bytes = self._without_earned(idle_bytes)

    def _without_earned(self, idle_bytes: int) -> int:
        """The idle bytes without those that the time since the last call has earned."""
        before, self._since = self._since, self._time()
        idle_bytes -= int((self._since - before) * ENGINE_IDLE_BYTES_PER_S)
        if idle_bytes > ENGINE_IDLE_BYTES_MAX:
            raise EngineFault(
                f"{self._server} sent {ENGINE_IDLE_BYTES_MAX // 2**20} MiB without any content, faster than "
                f"{ENGINE_IDLE_BYTES_PER_S // 2**10} KiB/s."
            )
        return max(idle_bytes, 0)
