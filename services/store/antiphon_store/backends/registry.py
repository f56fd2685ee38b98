"""From a URL to a backend: one table of schemes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from antiphon_core.clock import Clock, SystemClock
from antiphon_core.config import SettingsError
from antiphon_store.backends.base import Backend, Durability
from antiphon_store.backends.memory import MemoryBackend
from antiphon_store.backends.sqlite.backend import SqliteBackend

_Factory = Callable[[str, Durability, Clock], Backend]


def open_backend(url: str, *, durability: str = Durability.DISK, clock: Clock | None = None) -> Backend:
    """The backend that `url` names, not yet opened. SettingsError: a URL or a durability that none understands."""
    scheme, separator, rest = url.partition("://")
    factory = BACKENDS.get(scheme)
    if not separator or factory is None:
        known = ", ".join(f"{name}://" for name in BACKENDS)
        later = " It is planned; see the project's issues." if scheme in PLANNED else ""
        raise SettingsError(f"There is no store backend for '{url}'.{later} Known are: {known}.")
    if durability not in set(Durability):
        raise SettingsError(f"There is no durability '{durability}'; known are: {', '.join(Durability)}.")
    return factory(rest, Durability(durability), clock or SystemClock())


def _memory(rest: str, _durability: Durability, clock: Clock) -> Backend:
    if rest:
        raise SettingsError(f"'memory://{rest}': memory has no address; write memory://.")
    return MemoryBackend(clock)


def _sqlite(rest: str, durability: Durability, clock: Clock) -> Backend:
    path = rest.removeprefix("/")
    if not rest.startswith("/") or not path or path.endswith("/") or "?" in path:
        raise SettingsError(
            f"'sqlite://{rest}': write sqlite:///FILE for a file in the current folder, sqlite:////FOLDER/FILE for an "
            "absolute path. There are no parameters."
        )
    if path == ":memory:":
        raise SettingsError("For a store in memory write memory://.")
    return SqliteBackend(Path(path), durability=durability, clock=clock)


BACKENDS: dict[str, _Factory] = {"memory": _memory, "sqlite": _sqlite}
PLANNED = frozenset({"redis", "rediss", "redis+sentinel", "redis+cluster", "postgresql"})
