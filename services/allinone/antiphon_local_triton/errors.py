"""The only error of this package: the local model cannot run on this machine."""

from __future__ import annotations

from antiphon_core.config import SettingsError


class LocalModelError(SettingsError):
    """The local model cannot be prepared or run. The message says what is wrong and what the user can do. Commands
    handle it as any other SettingsError."""
