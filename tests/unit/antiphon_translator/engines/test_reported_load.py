from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from antiphon_translator.engines import metrics_page
from antiphon_translator.engines.replica_metrics import ReplicaMetrics
from antiphon_translator.engines.reported_load import FETCH_S, ReportedLoad, address_of, has_metrics
from antiphon_translator.models.profiles import ModelProfile

TRITON = ModelProfile(name="m", directory=Path(), endpoint="t:8001", engine="triton_tokens")
URLS = replace(TRITON, engine="vllm_tokens")
PAGE = """nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting"} 3
nv_trt_llm_request_metrics{model="other",request_type="waiting"} 50
"""


@pytest.mark.parametrize(
    ("profile", "endpoint", "address"),
    [
        (TRITON, "triton:8001", ("triton", 8002)),
        (TRITON, "dns:///triton.svc:8001", ("triton.svc", 8002)),
        (TRITON, "[::1]:8001", ("::1", 8002)),
        (URLS, "http://vllm:8000/v1", ("vllm", 8000)),
        (URLS, "http://vllm/v1", ("vllm", 80)),
    ],
)
def test_metrics_are_beside_the_endpoint(profile: ModelProfile, endpoint: str, address: tuple[str, int]) -> None:
    assert address_of(endpoint, profile) == address


def test_server_behind_https_has_no_metrics() -> None:
    assert has_metrics(replace(URLS, endpoints=("http://a/v1", "http://b/v1")))
    assert not has_metrics(replace(URLS, endpoints=("http://a/v1", "https://b/v1")))


async def test_load_is_that_of_the_profiles_model(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()

    async def fetch(host: str, port: int, *, timeout_s: float) -> str:
        asked.append((host, port, timeout_s))
        return PAGE

    monkeypatch.setattr(metrics_page, "fetch", fetch)
    assert await ReportedLoad(TRITON).fetch("t:8001") == ReplicaMetrics(waiting=3)
    assert asked == [("t", 8002, FETCH_S)]
