"""Makes the backend of a URL, from a table of schemes and the schemes of installed packages.

A package adds a scheme with an entry point of the group `antiphon_store.backends`, named as the scheme:
`make(address, durability, clock)` returns a `rows.backend.RowBackend`, not yet opened (docs/howto/add-a-backend.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path

from antiphon_core.clock import Clock, SystemClock
from antiphon_core.config import SettingsError
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.backends.sqlite.backend import SqliteRows
from antiphon_store.rows.backend import Durability, RowBackend

ENTRY_POINTS = "antiphon_store.backends"

_Factory = Callable[[str, Durability, Clock], RowBackend]


def row_backend(
    url: str, *, durability: str = Durability.DISK, migrate: bool = True, clock: Clock | None = None
) -> RowBackend:
    """The backend that `url` names, not yet opened. Without `migrate` it leaves the schema of a PostgreSQL database as
    it is. SettingsError: the URL or the durability is unknown, or the backend does not support it."""
    scheme, separator, rest = url.partition("://")
    factory = BACKENDS.get(scheme) or _find_installed(scheme)
    if not separator or factory is None:
        known = ", ".join(f"{name}://" for name in (*BACKENDS, *sorted(entry_points(group=ENTRY_POINTS).names)))
        named = f"'{scheme}://'" if separator else "a URL without '://'"  # not the whole URL: it may have a password
        raise SettingsError(f"There is no store backend for {named}. Known are: {known}.")
    if durability not in set(Durability):
        raise SettingsError(f"There is no durability '{durability}'; known are: {', '.join(Durability)}.")
    if factory is _postgresql:
        factory = partial(_postgresql, migrate=migrate)
    return factory(rest, Durability(durability), clock or SystemClock())


def _memory(rest: str, _durability: Durability, clock: Clock) -> RowBackend:
    if rest:
        raise SettingsError(f"'memory://{rest}': memory has no address; write memory://.")
    return MemoryRows(clock)


def _sqlite(rest: str, durability: Durability, clock: Clock) -> RowBackend:
    path = rest.removeprefix("/")
    if not rest.startswith("/") or not path or path.endswith("/") or "?" in path:
        raise SettingsError(
            f"'sqlite://{rest}': write sqlite:///FILE for a file in the current folder, sqlite:////FOLDER/FILE for an "
            "absolute path. There are no parameters."
        )
    if path == ":memory:":
        raise SettingsError("For a store in memory write memory://.")
    return SqliteRows(Path(path), durability=durability, clock=clock)


def _redis(scheme: str, rest: str, durability: Durability, _clock: Clock) -> RowBackend:
    """Imports the backend here, because a base install has no Redis client. The servers' clock decides."""
    try:
        from antiphon_store.backends.redis.addresses import parse_address
        from antiphon_store.backends.redis.backend import RedisRows
    except ImportError as error:
        raise SettingsError(f"{scheme}:// needs its driver: pip install 'antiphon-server[redis]'.") from error
    return RedisRows(parse_address(scheme, rest), durability=durability)


def _postgresql(rest: str, durability: Durability, _clock: Clock, *, migrate: bool = True) -> RowBackend:
    try:
        from antiphon_store.backends.postgres.backend import PostgresRows
    except ImportError as error:
        raise SettingsError("postgresql:// needs its driver: pip install 'antiphon-server[postgresql]'.") from error
    return PostgresRows(f"postgresql://{rest}", durability=durability, migrate=migrate)


def _find_installed(scheme: str) -> _Factory | None:
    """The factory of a backend from another package."""
    for entry_point in entry_points(group=ENTRY_POINTS, name=scheme):
        make: _Factory = entry_point.load()
        return make
    return None


BACKENDS: dict[str, _Factory] = {
    "memory": _memory,
    "sqlite": _sqlite,
    **{scheme: partial(_redis, scheme) for scheme in ("redis", "rediss", "redis+sentinel", "redis+cluster")},
    "postgresql": _postgresql,
}
