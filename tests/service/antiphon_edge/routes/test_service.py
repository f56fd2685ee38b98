from __future__ import annotations

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.errors import EngineUnavailable, StoreUnavailable
from antiphon_core.telemetry import metrics
from antiphon_core.version import VERSION
from antiphon_edge.settings import EdgeSettings
from tests.support.edge import RunningEdge, running_edge


async def test_liveness_does_not_depend_on_the_translator(edge: RunningEdge) -> None:
    edge.translator.unready = EngineUnavailable("no")
    answer = await edge.ask("GET", "/v1/health/live")
    assert (answer.status, answer.json["status"]) == (200, "live")


async def test_readiness_answer_has_nims_form(edge: RunningEdge) -> None:
    answer = await edge.ask("GET", "/v1/health/ready")
    assert answer.status == 200
    assert answer.json == {"object": "health.response", "message": "Antiphon is ready", "status": "ready"}


async def test_unready_answer_names_what_is_missing(edge: RunningEdge) -> None:
    edge.translator.unready = EngineUnavailable("no engine for m")
    await edge.backend.close()
    answer = await edge.ask("GET", "/v1/health/ready")
    assert (answer.status, answer.json["status"]) == (503, "not_ready")
    assert "no engine for m" in answer.json["message"]
    assert "store" in answer.json["message"].lower()


async def test_edge_stays_ready_during_a_short_outage() -> None:
    clock = ManualClock()
    async with running_edge(clock=clock) as edge:
        assert (await edge.ask("GET", "/v1/health/ready")).status == 200
        edge.translator.unready = EngineUnavailable("no engine for m")
        answer = await edge.ask("GET", "/v1/health/ready")
        assert (answer.status, answer.json["status"], answer.json["message"]) == (200, "ready", "no engine for m")
        clock.advance(EdgeSettings().restart_wait_s)
        assert (await edge.ask("GET", "/v1/health/ready")).status == 503


async def test_edge_with_a_full_store_stays_ready(edge: RunningEdge, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full() -> None:
        raise StoreUnavailable("there is no room", full=True)

    monkeypatch.setattr(edge.backend, "ready", full)
    answer = await edge.ask("GET", "/v1/health/ready")
    assert (answer.status, answer.json["message"]) == (200, "there is no room")


async def test_models_are_listed_and_found(edge: RunningEdge) -> None:
    listed = (await edge.ask("GET", "/v1/models")).json
    (model,) = listed["data"]
    assert (listed["object"], model["id"], model["object"], model["root"]) == ("list", "m", "model", "m")
    assert (await edge.ask("GET", "/v1/models/m")).json == model


async def test_an_unknown_model_is_not_found(edge: RunningEdge) -> None:
    answer = await edge.ask("GET", "/v1/models/other/with/slashes")
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")


async def test_the_version_is_the_packages(edge: RunningEdge) -> None:
    assert (await edge.ask("GET", "/v1/version")).json == {"release": VERSION, "api": "v1"}


async def test_metadata_names_the_models_in_nims_words(edge: RunningEdge) -> None:
    metadata = (await edge.ask("GET", "/v1/metadata")).json
    assert [model["shortName"] for model in metadata["modelInfo"]] == ["m"]
    assert (metadata["version"], metadata["assetInfo"]) == (VERSION, [])


async def test_metrics_are_prometheus_text(edge: RunningEdge) -> None:
    await edge.create()
    answer = await edge.ask("GET", "/v1/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b'antiphon_turns_in_flight{delivery="caller"} 0.0' in answer.body
    assert b"# TYPE antiphon_turn_duration_seconds histogram" in answer.body


async def test_metrics_name_no_tenants(edge: RunningEdge) -> None:
    metrics.TENANT_TURNS.of("another tenant", "completed").add()
    answer = await edge.ask("GET", "/v1/metrics")
    assert answer.status == 200
    assert b"another tenant" not in answer.body


async def test_every_answer_forbids_content_sniffing_and_the_docs_framing(edge: RunningEdge) -> None:
    for path in ("/v1/models", "/v1/nothing", "/docs", "/openapi.json"):
        assert (await edge.ask("GET", path)).headers["x-content-type-options"] == "nosniff", path
    assert "frame-ancestors 'none'" in (await edge.ask("GET", "/docs")).headers["content-security-policy"]


async def test_metrics_are_openmetrics_when_the_accept_header_asks_for_it(edge: RunningEdge) -> None:
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = await edge.ask("GET", "/v1/metrics", headers=headers)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")
