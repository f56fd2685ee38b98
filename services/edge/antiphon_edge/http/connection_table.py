"""All open connections of an edge, so many in total and of one peer.

A process without a free file descriptor serves nobody. So connections stop short of its limit of open files, and where
they are too many the idlest one that owes and waits for nothing is closed: one of the peer that has the most. A peer
that holds thousands of idle connections loses its own.
"""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol, Self

from antiphon_core.telemetry import metrics, remedies
from antiphon_edge.access_settings import AccessSettings

log = logging.getLogger(__name__)

RESERVED_DESCRIPTORS = 64
"""Kept for the store, the translator, files and name servers."""
MIN_CONNECTIONS = 16
"""Also where the limit of open files is hardly more than the reserve."""
LOG_INTERVAL_S = 10.0
"""One line about refused and closed connections at most in this time."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """`total` and `per_peer` are numbers of connections."""

    total: int
    per_peer: int

    @classmethod
    def of(cls, settings: AccessSettings) -> Self:
        """The limits of the settings, within what the process may have open."""
        return cls(settings.connections_max, settings.connections_per_peer).within(open_files_max())

    def within(self, open_files_max: int) -> Self:
        """These limits in a process that may have so many files open. One peer has half of them at most."""
        total = max(MIN_CONNECTIONS, min(self.total, open_files_max - RESERVED_DESCRIPTORS))
        return type(self)(total, max(1, min(self.per_peer, total // 2)))


def open_files_max() -> int:
    """How many more files the process may have open than it has now."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (soft if soft != resource.RLIM_INFINITY else 2**20) - sum(1 for _ in Path("/proc/self/fd").iterdir())


class Listed(Protocol):
    """A connection in the table."""

    @property
    def peer(self) -> str: ...

    @property
    def idle_since_s(self) -> float | None:
        """Since when nothing is owed by either side; None while something is."""
        ...

    def shed(self) -> None:
        """Closes the connection. The table forgets it when it is closed."""
        ...


class ConnectionTable:
    """The connections of one edge. `is_exempt` says which peers may have any number: proxies, which bring everybody."""

    def __init__(
        self,
        limits: ConnectionLimits,
        *,
        is_exempt: Callable[[str], bool] = lambda _: False,
        now_s: Callable[[], float],
    ) -> None:
        self._limits = limits
        self._is_exempt = is_exempt
        self._now_s = now_s
        self._by_peer: dict[str, dict[Listed, None]] = {}
        self._count = 0
        self._untold = 0
        self._tell_at_s = -LOG_INTERVAL_S

    def __len__(self) -> int:
        return self._count

    def add(self, connection: Listed) -> None:
        self._by_peer.setdefault(connection.peer, {})[connection] = None
        self._count += 1

    def remove(self, connection: Listed) -> None:
        of_peer = self._by_peer.get(connection.peer, {})
        if connection in of_peer:
            del of_peer[connection]
            self._count -= 1
            if not of_peer:
                del self._by_peer[connection.peer]

    def has_room(self, peer: str, *, arriving: int = 0) -> bool:
        """Whether one more connection of `peer` can be opened, besides those that are `arriving`. An idle one is closed
        for it if need be."""
        mine = self._by_peer.get(peer, {})
        if len(mine) >= self._limits.per_peer and not self._is_exempt(peer):
            return self._is_shed("peer", mine)
        if self._count + arriving >= self._limits.total:
            return self.shed_one()
        return True

    def shed_one(self) -> bool:
        """Closes the idlest connection of the peer that has the most, or of any other. Whether there was one."""
        most = max(self._by_peer.values(), key=len, default={})
        if any(each.idle_since_s is not None for each in most):
            return self._is_shed("total", most)
        return self._is_shed("total", chain.from_iterable(self._by_peer.values()))

    def _is_shed(self, limit: str, connections: Iterable[Listed]) -> bool:
        idle = [(since_s, each) for each in connections if (since_s := each.idle_since_s) is not None]
        outcome = "shed" if idle else "rejected"
        metrics.CONNECTIONS_LIMITED.of(limit, outcome).add()
        self._tell(limit)
        if not idle:
            return False
        _since_s, idlest = min(idle, key=lambda pair: pair[0])
        self.remove(idlest)
        idlest.shed()
        return True

    def _tell(self, limit: str) -> None:
        self._untold += 1
        if self._now_s() < self._tell_at_s:
            return
        self._tell_at_s = self._now_s() + LOG_INTERVAL_S
        message = (
            "%d connections were closed or refused since the last such line: %d are open, the limit of %s is reached"
        )
        log.warning(message, self._untold, self._count, limit, extra=remedies.RAISE_FILE_LIMIT)
        self._untold = 0
