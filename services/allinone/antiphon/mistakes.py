"""The errors that a command prints as one line instead of a traceback: of its user, and of the services it needs."""

from __future__ import annotations

from antiphon.talk.errors import ApiError
from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable

MISTAKES = (SettingsError, StoreUnavailable, ApiError, OSError)


def explain(error: Exception) -> tuple[str, int]:
    """The line and the exit status for one of MISTAKES."""
    if isinstance(error, OSError):
        reason = str(error.strerror or error)
        return reason if error.filename is None else f"{error.filename}: {reason}", 1
    return str(error), 1 if isinstance(error, (StoreUnavailable, ApiError)) else 2
