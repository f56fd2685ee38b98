"""The table of this topic; that it works: tests/contract/store/test_suites.py."""

from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_core.rpc.methods import STORE
from antiphon_store.backends.registry import open_backend
from antiphon_store.conversations.server import handlers
from antiphon_store.service import StoreService


def test_every_rpc_of_conversations_is_served(clock: ManualClock) -> None:
    served = handlers(StoreService(open_backend("memory://", clock=clock)))
    assert set(served) == {name for name in STORE.methods if "Conversation" in name}
