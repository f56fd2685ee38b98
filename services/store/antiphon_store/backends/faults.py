"""The end of a database's own errors: each is logged, and becomes one of ours."""

from __future__ import annotations

import logging

from antiphon_core.errors import AntiphonError, InternalError, StoreUnavailable
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)


def report(database: str, error: Exception, kind: str, reason: str | None) -> AntiphonError:
    """Logs a database error of a kind, and returns the one that its caller gets. `reason`: why the store is out of use.
    Without one it may be our bug, so the log has the traceback; in an outage there are many errors, of a line each."""
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
    return StoreUnavailable(f"The store cannot be used: {reason}.")
