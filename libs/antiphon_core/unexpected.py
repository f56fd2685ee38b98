"""Exceptions that no code expected, as the errors that callers get.

A lack of memory is no bug: it ends the request that asked for too much, and the same request may succeed later or on
another server. So a MemoryError becomes Unavailable, which clients retry, and any other exception an InternalError.
"""

from __future__ import annotations

import logging

from antiphon_core.errors import AntiphonError, InternalError, Unavailable
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)

MEMORY_RETRY_MS = 5_000


def as_antiphon_error(error: Exception, what: str, message: str) -> AntiphonError:
    """The error that callers get. Any exception but an AntiphonError is logged as the failure of `what`, and callers
    get an InternalError with `message`, or Unavailable for a lack of memory."""
    if isinstance(error, AntiphonError):
        return error
    if isinstance(error, MemoryError):
        log.error("%s failed: this process has no memory left", what, extra=remedies.ADD_MEMORY)
        return Unavailable("The server is short of memory. Please try again.", retry_after_ms=MEMORY_RETRY_MS)
    log.error("%s failed", what, exc_info=error, extra=remedies.REPORT)
    return InternalError(message)
