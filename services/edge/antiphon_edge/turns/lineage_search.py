"""Finds the lineage of a conversation that a request resends, while the turn is prepared.

A stored turn is looked up in the store, in one call, which takes no lease, key or approval. Of a turn with
`store: false` nothing is stored, so its lineage lies in the memory of the edge that ran it, for a few minutes. A
lineage saves an engine work and changes no answer: a search that fails or takes too long is given up.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from antiphon_core.clock import Clock
from antiphon_core.errors import AntiphonError
from antiphon_core.limits import REMEMBERED_LINEAGES_S
from antiphon_core.ports.store import ResponseStore, TurnRequest
from antiphon_core.telemetry import metrics

WAIT_S = 0.25
"""How long a prepared turn waits for the store: as long as a prompt of 4,000 tokens takes an engine."""
REMEMBERED_BYTES_MAX = 32 * 2**20
_ENTRY_BYTES = 200
"""The memory of an entry without its lineage."""


class RememberedLineages:
    """The lineages of responses that were not stored, in memory. The ones that were written first go first."""

    def __init__(
        self, *, clock: Clock, ttl_s: float = REMEMBERED_LINEAGES_S, bytes_max: int = REMEMBERED_BYTES_MAX
    ) -> None:
        """With a `ttl_s` of 0 nothing is remembered."""
        self._clock = clock
        self._ttl_s = ttl_s
        self._bytes_max = bytes_max
        self._entries: OrderedDict[bytes, tuple[float, bytes]] = OrderedDict()
        self._bytes = 0

    def keep(self, key: bytes, lineage: bytes) -> None:
        if not self._ttl_s or not key or not lineage:
            return
        self._drop(key)
        self._entries[key] = self._clock.monotonic() + self._ttl_s, lineage
        self._bytes += len(lineage) + _ENTRY_BYTES
        while self._bytes > self._bytes_max or self._first_end_s() <= self._clock.monotonic():
            self._drop(next(iter(self._entries)))

    def find(self, keys: Sequence[bytes]) -> bytes:
        """The lineage under the first of these keys that has one; empty if there is none."""
        now_s = self._clock.monotonic()
        found = (self._entries.get(key, (0.0, b"")) for key in keys)
        return next((lineage for ends_s, lineage in found if ends_s > now_s), b"")

    def _first_end_s(self) -> float:
        return next(iter(self._entries.values()))[0] if self._entries else float("inf")

    def _drop(self, key: bytes) -> None:
        _, lineage = self._entries.pop(key, (0.0, None))
        if lineage is not None:
            self._bytes -= len(lineage) + _ENTRY_BYTES


class LineageSearch:
    """Searches for lineages. One instance serves all of a process."""

    def __init__(self, store: ResponseStore, remembered: RememberedLineages, *, wait_s: float = WAIT_S) -> None:
        """`store` fails fast."""
        self._store = store
        self._remembered = remembered
        self._wait_s = wait_s

    def begin(self, tenant: str, keys: Sequence[bytes], *, is_stored: bool) -> asyncio.Future[bytes]:
        """Begins to search for a lineage under the first of these keys that has one. The caller ends the search or
        cancels it."""
        if is_stored:
            return asyncio.ensure_future(self._read(tenant, TurnRequest(lineage_keys=tuple(keys))))
        found = asyncio.get_running_loop().create_future()
        found.set_result(self._remembered.find(keys))
        return found

    async def end(self, search: asyncio.Future[bytes]) -> bytes:
        """Returns the lineage; empty if there is none, or if it cannot be read in time."""
        if not search.done():
            await asyncio.wait([search], timeout=self._wait_s)
        try:
            lineage = search.result() if search.done() else None
        except AntiphonError:
            lineage = None
        outcome = "failed" if lineage is None else "found" if lineage else "absent"
        metrics.RECOVERED_LINEAGES.of(outcome).add()
        return lineage or b""

    async def _read(self, tenant: str, request: TurnRequest) -> bytes:
        return (await self._store.begin_turn(tenant, request)).found_lineage
