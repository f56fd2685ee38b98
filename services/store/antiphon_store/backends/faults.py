"""Logs the errors of databases and maps them to errors of `antiphon_core.errors`."""

from __future__ import annotations

import logging

from antiphon_core.errors import AntiphonError, DataDamaged, InternalError, StoreUnavailable
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)


def report(database: str, error: Exception, kind: str, reason: str | None, *, is_full: bool = False) -> AntiphonError:
    """Logs a database error, and returns the error for the caller. `reason`: why the store cannot be used. An error
    without a reason may be a bug, so its traceback is logged; an outage causes many errors, logged in one line each.
    `is_full`: the store lacks only space."""
    log.error(
        "%s: %s (%s)",
        database,
        error,
        kind,
        exc_info=error if reason is None else None,
        extra=remedies.CHECK_DATABASE,
    )
    if reason is None:
        return InternalError("The store failed. Its log says why.")
    return StoreUnavailable(f"The store cannot be used: {reason}.", full=is_full or None)


def report_damage(database: str, error: Exception, kind: str) -> DataDamaged:
    """Logs that a database could not evaluate a stored row, and returns the error for the caller."""
    log.error("%s: a stored row is damaged: %s (%s)", database, error, kind, extra=remedies.RESTORE_DATA)
    return DataDamaged.of("a row")
