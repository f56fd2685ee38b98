"""The open connections of an edge, limited in total and for each peer.

A process without a free file descriptor cannot accept connections or reach the store, so the total stays below the
process's limit of open files. At a limit, a new connection replaces the one that has been idle for longest: among
those of its peer at the limit per peer, among those of the peer with the most connections at the total. A peer that
holds thousands of idle connections therefore loses its own.
"""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol, Self

from antiphon_core.telemetry import metrics, remedies
from antiphon_core.telemetry.log_limit import LogLimit
from antiphon_edge.access_settings import AccessSettings

log = logging.getLogger(__name__)

RESERVED_DESCRIPTORS = 64
"""Kept for the store, the translator, files and name servers."""
MIN_CONNECTIONS = 16
"""The least total, even where the limit of open files leaves room for fewer."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """`total` and `per_peer` are numbers of connections."""

    total: int
    per_peer: int

    @classmethod
    def of(cls, settings: AccessSettings) -> Self:
        """The limits of the settings, lowered to the file descriptors that the process has free."""
        return cls(settings.connections_max, settings.connections_per_peer).within(free_descriptors())

    def within(self, free_descriptors: int) -> Self:
        """These limits, lowered for a process with this many free file descriptors. One peer gets half of the total at
        most."""
        total = max(MIN_CONNECTIONS, min(self.total, free_descriptors - RESERVED_DESCRIPTORS))
        return type(self)(total, max(1, min(self.per_peer, total // 2)))


def free_descriptors() -> int:
    """How many more files the process may open."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (soft if soft != resource.RLIM_INFINITY else 2**20) - sum(1 for _ in Path("/proc/self/fd").iterdir())


class TableConnection(Protocol):
    """A connection in the table."""

    @property
    def peer(self) -> str: ...

    @property
    def idle_since_s(self) -> float | None:
        """When the connection became idle; None while it handles a request or is a WebSocket."""
        ...

    def shed(self) -> None:
        """Closes the connection. The table has removed it before."""
        ...


class ConnectionTable:
    """The connections of one edge. `is_exempt` says whether a peer has no limit of its own: trusted proxies, whose
    connections carry the requests of many clients."""

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
        self._by_peer: dict[str, dict[TableConnection, None]] = {}
        self._count = 0
        self._log_limit = LogLimit()

    def __len__(self) -> int:
        return self._count

    def add(self, connection: TableConnection) -> None:
        self._by_peer.setdefault(connection.peer, {})[connection] = None
        self._count += 1

    def remove(self, connection: TableConnection) -> None:
        of_peer = self._by_peer.get(connection.peer, {})
        if connection in of_peer:
            del of_peer[connection]
            self._count -= 1
            if not of_peer:
                del self._by_peer[connection.peer]

    def make_room(self, peer: str, *, arriving: Collection[str] = ()) -> bool:
        """Makes room for one more connection of `peer`, by closing an idle one if a limit is reached. Returns False
        when the new connection must be rejected. `arriving` has the peers of connections that were accepted and are
        not in the table yet; they count towards both limits."""
        of_peer = self._by_peer.get(peer, {})
        count_of_peer = len(of_peer) + [*arriving].count(peer)
        if count_of_peer >= self._limits.per_peer and not self._is_exempt(peer):
            return self._shed_idlest("peer", of_peer)
        if self._count + len(arriving) >= self._limits.total:
            return self.shed_one()
        return True

    def shed_one(self) -> bool:
        """Closes the connection that has been idle for longest: one of the peer with the most connections or, if that
        has no idle one, of any peer. Returns False when no connection is idle."""
        most = max(self._by_peer.values(), key=len, default={})
        if any(each.idle_since_s is not None for each in most):
            return self._shed_idlest("total", most)
        return self._shed_idlest("total", chain.from_iterable(self._by_peer.values()))

    def shed_all(self) -> None:
        """Closes all idle connections, for a shutdown."""
        for each in [*chain.from_iterable(self._by_peer.values())]:
            if each.idle_since_s is not None:
                self.remove(each)
                each.shed()

    def _shed_idlest(self, limit: str, connections: Iterable[TableConnection]) -> bool:
        idle = [(since_s, each) for each in connections if (since_s := each.idle_since_s) is not None]
        outcome = "shed" if idle else "rejected"
        metrics.CONNECTIONS_LIMITED.of(limit, outcome).add()
        self._log(limit)
        if not idle:
            return False
        _since_s, idlest = min(idle, key=lambda pair: pair[0])
        self.remove(idlest)
        idlest.shed()
        return True

    def _log(self, limit: str) -> None:
        message = "%d connections were closed or rejected since the last such line: %d are open; limit reached: %s"
        if count := self._log_limit.count(self._now_s()):
            log.warning(message, count, self._count, limit, extra=remedies.RAISE_FILE_LIMIT)
