from __future__ import annotations

from typing import Any

from antiphon_core.clock import ManualClock
from antiphon_edge.background.background import Background
from antiphon_edge.quotas.metering import Meter
from antiphon_edge.quotas.response_readers import ResponseReaders
from antiphon_edge.turns.turn_parts import turn_service
from tests.support.translators import ScriptedTranslator
from tests.support.turn_services import turn_parts


def test_all_turns_of_a_process_share_their_parts() -> None:
    store: Any = object()
    parts = turn_parts(store, ScriptedTranslator(), clock=ManualClock())
    readers = ResponseReaders()
    turns = turn_service(parts, meter=Meter())
    queued = Background(parts, parts.fail_fast_store, readers=readers)
    assert (turns._starter, queued._starter) == (parts.starter, parts.starter)
    assert {turns._cleanup, queued._cleanup, parts.starter._cleanup, parts.runner._cleanup} == {parts.cleanup}
    assert (queued._store, parts.starter._store) == (parts.fail_fast_store, parts.fail_fast_store)
    assert queued._readers is readers


def test_writes_of_running_turns_do_not_fail_fast() -> None:
    store: Any = object()
    parts = turn_parts(store, ScriptedTranslator(), clock=ManualClock())
    turns = turn_service(parts, meter=Meter())
    assert parts.runner._store is store
    assert turns._policy._finisher._store is store
    assert turns._keyed_turns._store is store
