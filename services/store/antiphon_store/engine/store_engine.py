"""All operations of the store over one row backend: what a StoreService runs on.

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

Arguments were checked by the service (`antiphon_store.rules`); an operation may rely on their shape, and on item arrays
being tight: no white space around their brackets or right inside them.
"""

from __future__ import annotations

from antiphon_store.engine.conversations import ConversationOperations
from antiphon_store.engine.jobs import EventLogOperations, JobOperations
from antiphon_store.engine.lineage import LineageOperations
from antiphon_store.engine.prompts import PromptOperations
from antiphon_store.engine.quotas import QuotaOperations
from antiphon_store.engine.records import KeyedOperations
from antiphon_store.rows.backend import Durability


class StoreEngine(
    KeyedOperations,
    LineageOperations,
    EventLogOperations,
    JobOperations,
    ConversationOperations,
    PromptOperations,
    QuotaOperations,
):
    """The operations of all topics. `open` comes first and `close` last; in between they may run concurrently."""

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
