from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.operations import postgres_backup, sqlite_backup
from antiphon.operations.backups import backups_of
from antiphon_core.config import SettingsError


def test_each_database_has_the_backups_of_its_own_tools() -> None:
    sqlite, postgres = backups_of("sqlite:////var/store.db"), backups_of("postgresql://me@host/db")
    assert [(each.func, each.args) for each in sqlite] == [  # type: ignore[attr-defined]
        (sqlite_backup.backup, (Path("/var/store.db"),)),
        (sqlite_backup.restore, (Path("/var/store.db"),)),
    ]
    assert [(each.func, each.args) for each in postgres] == [  # type: ignore[attr-defined]
        (postgres_backup.backup, ("postgresql://me@host/db",)),
        (postgres_backup.restore, ("postgresql://me@host/db",)),
    ]


@pytest.mark.parametrize(("url", "says"), [("redis://h", "its own tools"), ("nothing://h", "no store backend")])
def test_other_databases_are_refused(url: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        backups_of(url)
