"""A store over the database that a URL names."""

from __future__ import annotations

from antiphon_core.clock import Clock
from antiphon_store.backends.registry import row_backend
from antiphon_store.engine.store_engine import StoreEngine
from antiphon_store.rows.backend import Durability


def open_backend(
    url: str, *, durability: str = Durability.DISK, migrate: bool = True, clock: Clock | None = None
) -> StoreEngine:
    """The engine over the backend that `url` names, not yet opened. SettingsError: as `row_backend`."""
    return StoreEngine(row_backend(url, durability=durability, migrate=migrate, clock=clock))
