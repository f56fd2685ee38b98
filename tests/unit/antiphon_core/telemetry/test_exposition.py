from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from antiphon_core.telemetry import metrics
from antiphon_core.telemetry.exposition import Exposition

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def samples(exposition: Exposition) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text, _ = exposition.text()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_every_instrument_of_a_target_is_there_and_no_other() -> None:
    text, content_type = Exposition(["worker"]).text()
    assert content_type.startswith("text/plain; version=0.0.4")
    named = {line.split()[2].removesuffix("_total") for line in text.decode().splitlines() if line.startswith("# TYPE")}
    declared = {each.name.removesuffix("_total") for each in metrics.declarations() if "worker" in each.targets}
    assert {name for name in named if name.startswith("antiphon_")} == declared


def test_counters_gauges_and_histograms_have_their_values() -> None:
    metrics.TAKEOVERS.of("exposed").add(3)
    metrics.WORKER_SLOTS.of().set(4)
    child = metrics.COMMIT.of("exposed")
    for value in (0.0004, 0.002, 99):
        child.observe(value)
    found = samples(Exposition(["worker"]))
    assert found["antiphon_takeovers_total", frozenset({("kind", "exposed")})] == 3
    assert found["antiphon_worker_slots", frozenset()] == 4
    buckets = {
        dict(labels)["le"]: value
        for (name, labels), value in found.items()
        if name == "antiphon_commit_duration_seconds_bucket" and ("outcome", "exposed") in labels
    }
    assert (buckets["0.0005"], buckets["0.001"], buckets["0.0025"], buckets["60.0"], buckets["+Inf"]) == (1, 1, 2, 2, 3)
    assert found["antiphon_commit_duration_seconds_count", frozenset({("outcome", "exposed")})] == 3


def test_series_of_a_worker_process_have_its_number_as_label() -> None:
    metrics.WORKER_SLOTS.of().set(4)
    found = samples(Exposition(["worker"], worker=2))
    assert ("antiphon_worker_slots", frozenset({("worker", "2")})) in found


def test_a_sampled_trace_is_an_exemplar_in_openmetrics() -> None:
    metrics.COMMIT.of("traced").observe(0.002, "ab" * 16)
    text, content_type = Exposition(["edge"]).text(OPEN_METRICS)
    assert content_type.startswith("application/openmetrics-text")
    parse: Any = open_metrics
    families = {family.name: family for family in parse(text.decode())}
    samples = families["antiphon_commit_duration_seconds"].samples
    found = [each.exemplar for each in samples if each.exemplar and each.labels["outcome"] == "traced"]
    assert [(exemplar.labels, exemplar.value) for exemplar in found] == [({"trace_id": "ab" * 16}, 0.002)]


@pytest.mark.parametrize("accept", ["", "*/*", "text/html,application/xhtml+xml"])
def test_other_accept_headers_get_prometheus_text(accept: str) -> None:
    _, content_type = Exposition(["edge"]).text(accept)
    assert content_type.startswith("text/plain")


def test_series_of_tenants_can_be_left_out() -> None:
    metrics.TENANT_TURNS.of("acme", "completed").add()
    metrics.TENANT_TOKENS.of("acme", "input").add(5)
    whole = Exposition(["edge"], worker=2)
    assert b"acme" in whole.text()[0]
    public, _ = whole.without_tenants().text()
    assert b"acme" not in public
    assert b"antiphon_tenant" not in public
    assert b'worker="2"' in public
