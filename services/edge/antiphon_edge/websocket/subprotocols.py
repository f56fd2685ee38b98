"""The subprotocols that clients offer for a WebSocket: none is spoken here, and none may be logged.

Pages can add no header to the opening of a WebSocket, and put their key among the subprotocols instead. aiohttp logs
all that it does not know.
"""

from __future__ import annotations

import logging

LIBRARY_LOGGER = "aiohttp.websocket"


class _OwnWords(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Of what is said it keeps about whom."""
        peer = record.args[0] if isinstance(record.args, tuple) and record.args else "somebody"
        record.msg, record.args = "%s offers subprotocols for a WebSocket; none is spoken here", (peer,)
        return True


_OWN_WORDS = _OwnWords()


def keep_out_of_the_log() -> None:
    """To be called by whoever opens WebSockets, any number of times."""
    logging.getLogger(LIBRARY_LOGGER).addFilter(_OWN_WORDS)
