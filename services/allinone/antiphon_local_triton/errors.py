"""The one error of this package: something on this machine keeps the local model from running."""

from __future__ import annotations

from antiphon_core.config import SettingsError


class LocalModelError(SettingsError):
    """The local model cannot be prepared or run. The message says what is wrong and what the user can do about it, as
    that of any SettingsError does: a command that starts the model need not know this class."""
