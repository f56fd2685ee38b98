from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.jsons import dumps
from antiphon_core.ports.store import TurnCommit
from antiphon_core.ports.translator import EndedTurn
from antiphon_edge.quotas.long_work import LongWork
from antiphon_edge.routes import cache
from antiphon_edge.turns.ended_turns import EndedTurns
from antiphon_store.backends.memory import MemoryRows
from antiphon_store.service import StoreService
from antiphon_store.testing.subject import draft


@pytest.mark.parametrize(("compare", "items"), [({}, 0), ({"compare": "parent"}, 2)])
async def test_chain_of_a_response_is_read_only_for_a_comparison(
    monkeypatch: pytest.MonkeyPatch, compare: dict[str, str], items: int
) -> None:
    """Without one, each card of a console's tree would send a translator a whole conversation."""
    monkeypatch.setattr(cache, "tenant_of", lambda _request: "acme")
    rows = MemoryRows(ManualClock())
    await rows.open()
    store, body = StoreService(rows), dumps({"created_at": 1, "model": "m"})
    root = draft(body=body)
    child = draft(root, body=body)
    for each in (root, child):
        await store.commit_turn("acme", TurnCommit(each, lineage=b"lineage"))
    sent: list[EndedTurn] = []

    class Translator:
        async def explain_cache(self, now: EndedTurn, _compared: EndedTurn | None) -> bytes:
            sent.append(now)
            return b"{}"

    translator: Any = Translator()
    request: Any = SimpleNamespace(match_info={"id": child.id}, query=compare)
    await cache.CacheRoutes(store, translator, EndedTurns(store, LongWork())).explain(request)
    (now,) = sent
    assert now.lineage == b"lineage"
    assert now.turn.history.count(b'"id"') == items
