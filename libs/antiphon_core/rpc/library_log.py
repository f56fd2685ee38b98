"""The log lines of grpcio that callers cause: limited, and without what the callers sent.

grpcio logs a traceback each time it reads metadata that is no UTF-8, with the value, which may be a token, and one for
each call whose caller is gone when the answer is sent. Any caller could so fill a disk, without a token.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

from antiphon_core.telemetry.log_limit import LogLimit

LIBRARY_LOGGER = "grpc._cython.cygrpc"
_NO_TEXT = "Invalid encoding on"
_GONE = "ExecuteBatchError raised in core by servicer method"
_REPORTED = "Callers sent metadata that is not UTF-8: %d times since the last such line."


class CallerLines(logging.Filter):
    """Passes other lines unchanged. Drops those of callers that are gone: their calls are CANCELLED in the metrics."""

    def __init__(self, time: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._time = time
        self._limit = LogLimit()

    def filter(self, record: logging.LogRecord) -> bool:
        text = str(record.msg)
        if text.startswith(_GONE):
            return False
        if not text.startswith(_NO_TEXT):
            return True
        count = self._limit.count(self._time())
        record.msg, record.args, record.exc_info = _REPORTED, (count,), None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        return count > 0


def install() -> None:
    """Filters the lines of grpcio in this process. Further calls have no effect."""
    library = logging.getLogger(LIBRARY_LOGGER)
    if not any(isinstance(each, CallerLines) for each in library.filters):
        library.addFilter(CallerLines())
