from __future__ import annotations

from antiphon_core.telemetry import metrics
from antiphon_translator.engines.endpoint_cache import PREFILL_TOKENS_PER_S
from antiphon_translator.engines.endpoint_choice import Chosen, Endpoint, Outcome
from antiphon_translator.engines.fleet_metrics import FleetMetrics
from antiphon_translator.engines.replica_metrics import ReplicaMetrics


def test_placement_is_counted_by_outcome_with_the_measured_rate() -> None:
    watch = FleetMetrics("fleet-1")
    for outcome in (Outcome.KEPT, Outcome.KEPT, Outcome.MOVED_DEAD):
        watch.count_placement(Chosen(Endpoint("t:1"), outcome))
    counts = {outcome: metrics.PLACEMENTS.of("fleet-1", outcome.value).value for outcome in Outcome}
    assert counts == {Outcome.KEPT: 2, Outcome.MOVED_DEAD: 1, Outcome.MOVED_LOAD: 0, Outcome.ROOT: 0}
    assert metrics.ENDPOINT_PREFILL_RATE.of("fleet-1", "t:1").value == PREFILL_TOKENS_PER_S


def test_load_sets_only_what_the_server_reports_until_it_is_forgotten() -> None:
    watch = FleetMetrics("fleet-2")
    watch.note_load("t:1", None)
    watch.note_load("t:1", ReplicaMetrics(waiting=3, kv_used_share=0.25))
    assert metrics.ENDPOINT_WAITING.of("fleet-2", "t:1").value == 3
    assert ("fleet-2", "t:1", "used") not in metrics.ENDPOINT_KV_TOKENS.children()
    watch.note_load("t:1", ReplicaMetrics(kv_used_share=0.25, block_tokens=32, blocks=1_000))
    used = {state: metrics.ENDPOINT_KV_TOKENS.of("fleet-2", "t:1", state).value for state in ("max", "used")}
    assert used == {"max": 32_000, "used": 8_000}
    polls = [metrics.LOAD_POLLS.of("fleet-2", "t:1", outcome).value for outcome in ("ok", "failed")]
    assert polls == [2, 1]
    watch.forget(["t:1"])
    assert ("fleet-2", "t:1", "used") not in metrics.ENDPOINT_KV_TOKENS.children()
    assert ("fleet-2", "t:1") not in metrics.ENDPOINT_WAITING.children()
