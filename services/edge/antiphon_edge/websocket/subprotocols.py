"""Keeps the subprotocols that clients offer for a WebSocket out of the log. The server supports none.

Web pages cannot add headers to the opening handshake of a WebSocket. Some send an API key as a subprotocol instead, and
aiohttp logs the subprotocols that it does not know.
"""

from __future__ import annotations

import logging

LIBRARY_LOGGER = "aiohttp.websocket"


class _RedactSubprotocols(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Replaces the message by one that has only the client's address."""
        peer = record.args[0] if isinstance(record.args, tuple) and record.args else "a client"
        record.msg, record.args = "%s offers subprotocols for a WebSocket; the server supports none", (peer,)
        return True


_REDACT_SUBPROTOCOLS = _RedactSubprotocols()


def redact_log() -> None:
    """Installs the log filter. Call it before a WebSocket is opened; later calls change nothing."""
    logging.getLogger(LIBRARY_LOGGER).addFilter(_REDACT_SUBPROTOCOLS)
