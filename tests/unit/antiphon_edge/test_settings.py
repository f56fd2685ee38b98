from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_edge.settings import EdgeSettings, WorkerSettings


def test_loopback_is_the_default_and_gives_no_warning() -> None:
    assert list(EdgeSettings().warnings()) == []


def test_public_host_is_rejected_or_with_insecure_warned_about() -> None:
    with pytest.raises(SettingsError, match="ANTIPHON_EDGE_KEYS_FILE"):
        EdgeSettings(host="0.0.0.0")
    ((message, _explanation),) = EdgeSettings(host="0.0.0.0", insecure=True).warnings()
    assert "not authenticated" in message


@pytest.mark.parametrize("wait_ms", [-1, 60_001])
def test_conversation_wait_out_of_range_is_rejected(wait_ms: int) -> None:
    assert EdgeSettings(conversation_wait_ms=60_000).conversation_wait_ms == 60_000
    with pytest.raises(SettingsError, match="conversation_wait_ms must be 0 to 60,000"):
        EdgeSettings(conversation_wait_ms=wait_ms)


def test_keep_alive_of_zero_seconds_is_rejected() -> None:
    with pytest.raises(SettingsError, match="keep_alive_s must be more than 0"):
        EdgeSettings(keep_alive_s=0.0)


def test_a_websocket_has_at_least_one_lane() -> None:
    assert EdgeSettings(websocket_lanes=1).websocket_lanes == 1
    with pytest.raises(SettingsError, match="at least one lane"):
        EdgeSettings(websocket_lanes=0)


@pytest.mark.parametrize(
    "url", ["javascript:alert({trace_id})", "https://jaeger.example/", "jaeger.example/{trace_id}"]
)
def test_trace_url_that_a_page_cannot_link_to_is_rejected(url: str) -> None:
    assert EdgeSettings(console_trace_url="https://jaeger.example/trace/{trace_id}").console_trace_url
    with pytest.raises(
        SettingsError, match="console_trace_url must begin with https:// or http:// and have {trace_id}"
    ):
        EdgeSettings(console_trace_url=url)


def test_worker_beside_an_edge_takes_what_it_does_not_name() -> None:
    edge = EdgeSettings(
        store="h:1", store_token_file=Path("token"), translator="h:2", sealing_keys_file=Path("keys"), sealed_ttl_s=5
    )
    beside = WorkerSettings(slots=3).beside(edge)
    assert (beside.store, beside.store_token_file, beside.translator) == ("h:1", Path("token"), "h:2")
    assert (beside.sealing_keys_file, beside.sealed_ttl_s, beside.slots) == (Path("keys"), 5, 3)


def test_worker_beside_an_edge_keeps_its_own_store_without_the_edges_token() -> None:
    edge = EdgeSettings(store="h:1", store_token_file=Path("token"), memory_limit_bytes=7)
    own = WorkerSettings(store="h:9", memory_limit_bytes=5).beside(edge)
    assert (own.store, own.store_token_file, own.memory_limit_bytes) == ("h:9", None, 5)
    assert WorkerSettings().beside(edge).memory_limit_bytes == 7


def test_negative_memory_limit_is_rejected_by_name() -> None:
    with pytest.raises(SettingsError, match="ANTIPHON_WORKER_MEMORY_LIMIT_BYTES must be 0 or more"):
        WorkerSettings(memory_limit_bytes=-1)
