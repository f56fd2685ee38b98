"""What an operator does to a store from the command line: `antiphon store migrate`."""

from __future__ import annotations

import asyncio

from antiphon.settings import Settings
from antiphon_core.config import SettingsError
from antiphon_store.backends.registry import open_backend


def migrate(loaded: Settings) -> None:
    """Brings the schema of the store's database to the newest version; StoreUnavailable says why that cannot be."""
    store = loaded.store
    if store.url.startswith("memory:"):
        raise SettingsError("memory:// has no schema. Name the store with --store-url or ANTIPHON_STORE_URL.")
    asyncio.run(_open_once(store.url, store.durability))
    print("The store's schema is up to date.")


async def _open_once(url: str, durability: str) -> None:
    backend = open_backend(url, durability=durability)
    await backend.open()
    await backend.close()
