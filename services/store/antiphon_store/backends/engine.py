"""All operations of the store, as one protocol: what a StoreService runs on."""

from __future__ import annotations

from typing import Protocol

from antiphon_store.backends.base import Backend
from antiphon_store.backends.roles.conversations import ConversationAtoms
from antiphon_store.backends.roles.event_logs import EventLogAtoms
from antiphon_store.backends.roles.idempotency import IdempotencyAtoms
from antiphon_store.backends.roles.jobs import JobAtoms
from antiphon_store.backends.roles.lineage import LineageAtoms
from antiphon_store.backends.roles.retention import RetentionAtoms
from antiphon_store.backends.roles.spending import SpendingAtoms


class StoreEngine(
    Backend,
    LineageAtoms,
    EventLogAtoms,
    JobAtoms,
    ConversationAtoms,
    IdempotencyAtoms,
    RetentionAtoms,
    SpendingAtoms,
    Protocol,
):
    """All operations."""
