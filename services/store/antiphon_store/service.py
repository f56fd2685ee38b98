"""The store over any rows: one class with every operation of the ports.

Rules that hold for every operation:

    Whole           It happens entirely or not at all. What lies in one tree changes in one step; what points there from
                    elsewhere (keys, tickets, items by id) is written before or after, and verified at what it names.
    Durable         A write returns after it is safe at the `durability`, never before.
    Repeatable      The same write again changes nothing and gives the same answer.
    Time            Each database has one clock. It alone decides what is expired and which lease lives; reclaiming
                    space never changes an answer.
    Tenancy         A key of another tenant does not exist.
    Errors          Only classes of `antiphon_core.errors` leave an operation. The database's own are logged and
                    mapped: StoreUnavailable when trying again may help, InternalError when it will not.

Arguments are checked first (`arguments`), so decisions rely on their shape, and on item arrays being tight: no white
space around their brackets or right inside them.
"""

from __future__ import annotations

from antiphon_store.rows.backend import Durability
from antiphon_store.topics.conversations import ConversationOperations
from antiphon_store.topics.event_logs import EventLogOperations
from antiphon_store.topics.lineage import LineageOperations
from antiphon_store.topics.tenant_wide import TenantWideOperations
from antiphon_store.topics.turns import TurnOperations


class StoreService(TurnOperations, LineageOperations, ConversationOperations, EventLogOperations, TenantWideOperations):
    """Implements `antiphon_core.ports.full_store.FullStore` and `Retention`. It holds no data, so any number of
    services may share rows. `open` comes first and `close` last; in between operations may run concurrently."""

    @property
    def durability(self) -> Durability:
        return self._rows.durability

    async def open(self) -> None:
        """Connects and brings the schema up to date. StoreUnavailable: with what is wrong, for an operator."""
        await self._rows.open()

    async def close(self) -> None:
        """Lets running operations end. Every one after it raises StoreUnavailable; a second close does nothing."""
        await self._rows.close()

    async def ready(self) -> None:
        """Returns when operations would succeed now; raises StoreUnavailable with the reason otherwise."""
        await self._rows.ready()

    def end_waits(self) -> None:
        """Has calls that wait for a session, a job or an event end now, before the process does."""
        for waiting in (self._session_lines, self._claimers, self._followers):
            waiting.end_waits()
