"""Stored data that cannot be read: one line in the log, and one error for callers.

A disk, an operator or a program beside Antiphon may have changed what it stored, so every reader of stored bytes may
meet bytes that Antiphon never wrote. Their exceptions are not bugs of the reader: each call would log a traceback.
"""

from __future__ import annotations

import logging

from antiphon_core.errors import DataDamaged
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)

UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""The exceptions of code that reads stored data and assumes what wrote them."""


def report(what: str, why: object) -> DataDamaged:
    """Logs that `what` is damaged, and returns the error for the caller. Neither has content."""
    log.error("stored data is damaged: %s: %s", what, why, extra=remedies.RESTORE_DATA)
    return DataDamaged.of(what)


class reading:
    """Reports exceptions of its block, which only reads stored data, as damage of `what`. It is in the way of every
    read, so it is a class: a generator would cost three times as much.

    Raises:
        DataDamaged: the block could not read them.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, UNREADABLE):
            raise report(self._what, f"{type(error).__name__} while they were read") from error
