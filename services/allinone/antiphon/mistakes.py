"""Errors of whoever runs a command, and of what it needs: one line and an exit status, instead of a traceback."""

from __future__ import annotations

from antiphon.talk.errors import ApiError
from antiphon_core.config import SettingsError
from antiphon_core.errors import StoreUnavailable

MISTAKES = (SettingsError, StoreUnavailable, ApiError, OSError)


def explain(error: Exception) -> tuple[str, int]:
    """The line and the exit status of one of MISTAKES."""
    if isinstance(error, OSError):
        return str(error.strerror or error), 1
    return str(error), 1 if isinstance(error, (StoreUnavailable, ApiError)) else 2
