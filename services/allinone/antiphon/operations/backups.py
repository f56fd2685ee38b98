"""Backups of a whole database, by its URL: copies into a file, while the database is in use, and back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from antiphon.operations import sqlite_backup
from antiphon_core.config import SettingsError
from antiphon_store.backends import registry
from antiphon_store.rows.maintenance import Progress


class Backups(NamedTuple):
    """Both ways of one database. They raise OSError, OperationError and StoreUnavailable."""

    backup: Callable[[Path, Progress], Awaitable[None]]
    restore: Callable[[Path, Progress], Awaitable[None]]


def backups_of(url: str) -> Backups:
    """SettingsError: the URL is invalid, or there are no backups of its database."""
    registry.row_backend(url)  # checks the URL
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite":
        path = Path(rest.removeprefix("/"))
        return Backups(partial(sqlite_backup.backup, path), partial(sqlite_backup.restore, path))
    if scheme == "postgresql":
        from antiphon.operations import postgres_backup  # an optional driver

        return Backups(partial(postgres_backup.backup, url), partial(postgres_backup.restore, url))
    raise SettingsError(
        "Back up this database with its own tools. To move a tenant to another database, use export and import."
    )
