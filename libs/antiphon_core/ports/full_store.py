"""The whole store as one protocol."""

from __future__ import annotations

from typing import Protocol

from antiphon_core.ports.approvals import Approvals
from antiphon_core.ports.conversations import ConversationStore
from antiphon_core.ports.event_logs import EventLogs
from antiphon_core.ports.jobs import Jobs
from antiphon_core.ports.lineage import LineageStore
from antiphon_core.ports.prompts import PromptStore
from antiphon_core.ports.quotas import Quotas
from antiphon_core.ports.store import ResponseStore


class FullStore(
    ResponseStore, LineageStore, ConversationStore, EventLogs, Jobs, PromptStore, Approvals, Quotas, Protocol
):
    """All ports of the store, which its service and its client implement."""
