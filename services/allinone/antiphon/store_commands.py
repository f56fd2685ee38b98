"""What an operator does to a store from the command line: `antiphon store migrate`."""

from __future__ import annotations

import argparse

from antiphon.settings import Settings
from antiphon.settings_flags import add_settings, load
from antiphon_core import event_loop
from antiphon_core.config import SettingsError

_USED = ("--store-url", "--store-durability")


def declare(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="WHAT")
    migrate_one = commands.add_parser("migrate", help="bring the database's schema to this release's version")
    add_settings(migrate_one, only=lambda setting: setting.flag in _USED)
    migrate_one.set_defaults(run=_migrate)


def _migrate(options: argparse.Namespace) -> int:
    migrate(load(options))
    return 0


def migrate(loaded: Settings) -> None:
    """Brings the schema of the store's database to the newest version; StoreUnavailable says why that cannot be."""
    store = loaded.store
    if store.url.startswith("memory:"):
        raise SettingsError("memory:// has no schema. Name the store with --store-url or ANTIPHON_STORE_URL.")
    event_loop.run(_open_once(store.url, store.durability))
    print("The store's schema is up to date.")


async def _open_once(url: str, durability: str) -> None:
    from antiphon_store.backends.registry import open_backend  # the databases are not needed to tell of the arguments

    backend = open_backend(url, durability=durability)
    await backend.open()
    await backend.close()
