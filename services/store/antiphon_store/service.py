"""The store service: one class with every operation of the ports, over any row backend.

Rules that hold for every operation:

    Whole           It happens entirely or not at all. The rows of one tree change in one step. Pointers to them (keys,
                    tickets, items by id) are written before or after that, and verified at the row that they name.
    Durable         A write returns after it is safe at the `durability`, never before.
    Repeatable      A repeated write changes nothing and returns the same result.
    Time            Each database has one clock. It alone decides what is expired and which lease lives; reclaiming
                    space never changes an answer.
    Tenancy         Data of another tenant is answered like data that does not exist.
    Errors          Only classes of `antiphon_core.errors` leave an operation. The database's own are logged and
                    mapped: StoreUnavailable when a retry may help, InternalError when it will not.

Arguments are checked first (`arguments`), so decisions rely on their shape, and on item arrays being tight: no white
space around their brackets or right inside them.
"""

from __future__ import annotations

from antiphon_store.rows.backend import Durability
from antiphon_store.topics.approvals import ApprovalOperations
from antiphon_store.topics.conversations import ConversationOperations
from antiphon_store.topics.event_logs import EventLogOperations
from antiphon_store.topics.lineage import LineageOperations
from antiphon_store.topics.tenant_wide import TenantWideOperations
from antiphon_store.topics.turns import TurnOperations


class StoreService(
    TurnOperations,
    LineageOperations,
    ConversationOperations,
    EventLogOperations,
    ApprovalOperations,
    TenantWideOperations,
):
    """Implements `antiphon_core.ports.full_store.FullStore` and `Retention`. It holds no data, so any number of
    services may share rows. `open` comes first and `close` last; in between operations may run concurrently."""

    @property
    def durability(self) -> Durability:
        return self._rows.durability

    async def open(self) -> None:
        """Connects and brings the schema up to date. StoreUnavailable: its message tells the operator what is wrong."""
        await self._rows.open()

    async def close(self) -> None:
        """Waits for running operations. Later operations raise StoreUnavailable; a second close does nothing."""
        await self._rows.close()

    async def ready(self) -> None:
        """Returns if operations would succeed now; raises StoreUnavailable with the reason otherwise."""
        await self._rows.ready()

    def end_waits(self) -> None:
        """Ends the calls that wait for a session, a job or an event. Called before the process stops."""
        for waiting in (self._session_lines, self._claimers, self._followers):
            waiting.end_waits()
