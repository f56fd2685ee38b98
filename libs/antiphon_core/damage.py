"""Stored data that cannot be read: one line in the log, and one error for callers.

A disk, an operator or a program beside Antiphon may have changed what it stored, so every reader of stored bytes may
meet bytes that Antiphon never wrote. Their exceptions are not bugs of the reader: each call would log a traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from antiphon_core.errors import DataDamaged
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)

UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""The exceptions of code that reads stored data and assumes what wrote them."""


def found(what: str, why: object) -> DataDamaged:
    """Logs that `what` is damaged, and returns the error for the caller. Neither has content."""
    log.error("stored data is damaged: %s: %s", what, why, extra=remedies.RESTORE_DATA)
    return DataDamaged.of(what)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Reports exceptions of the block, which only reads stored data, as damage of `what`.

    Raises:
        DataDamaged: the block could not read them.
    """
    try:
        yield
    except UNREADABLE as error:
        raise found(what, f"{type(error).__name__} while they were read") from error
