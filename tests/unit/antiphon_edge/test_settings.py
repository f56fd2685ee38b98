from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_edge.settings import EdgeSettings


def test_loopback_is_the_default_and_gives_no_warning() -> None:
    assert list(EdgeSettings().warnings()) == []


def test_an_open_door_is_refused_or_pointed_out() -> None:
    with pytest.raises(SettingsError, match="ANTIPHON_EDGE_KEYS_FILE"):
        EdgeSettings(host="0.0.0.0")
    ((message, _explanation),) = EdgeSettings(host="0.0.0.0", insecure=True).warnings()
    assert "not authenticated" in message


def test_each_peer_has_credentials_of_its_own() -> None:
    files = {name: Path(name) for name in ("token", "ca", "cert", "key")}
    settings = EdgeSettings(
        store_token_file=files["token"],
        translator_tls_ca_file=files["ca"],
        translator_tls_cert_file=files["cert"],
        translator_tls_key_file=files["key"],
    )
    assert settings.credentials_for("store") == ClientCredentials(token_file=files["token"])
    assert settings.credentials_for("translator") == ClientCredentials(
        tls_ca_file=files["ca"], tls_cert_file=files["cert"], tls_key_file=files["key"]
    )
    assert EdgeSettings().credentials_for("store") == ANONYMOUS


def test_half_of_a_certificate_is_refused_with_the_peers_name() -> None:
    with pytest.raises(SettingsError, match="credentials for the translator: tls_cert_file and tls_key_file"):
        EdgeSettings(translator_tls_cert_file=Path("cert"))


def test_a_silence_in_which_no_heartbeats_fit_is_refused() -> None:
    assert EdgeSettings(translator_silence_s=0).translator_silence_s == 0
    with pytest.raises(SettingsError, match="translator_silence_s must be 0, or 0.25 or more"):
        EdgeSettings(translator_silence_s=0.2)


@pytest.mark.parametrize("wait_ms", [-1, 60_001])
def test_nobody_waits_for_longer_than_the_store_would(wait_ms: int) -> None:
    assert EdgeSettings(conversation_wait_ms=60_000).conversation_wait_ms == 60_000
    with pytest.raises(SettingsError, match="conversation_wait_ms must be 0 to 60,000"):
        EdgeSettings(conversation_wait_ms=wait_ms)


def test_a_websocket_has_at_least_one_lane() -> None:
    assert EdgeSettings(websocket_lanes=1).websocket_lanes == 1
    with pytest.raises(SettingsError, match="at least one lane"):
        EdgeSettings(websocket_lanes=0)


@pytest.mark.parametrize(
    "url", ["javascript:alert({trace_id})", "https://jaeger.example/", "jaeger.example/{trace_id}"]
)
def test_the_address_of_traces_must_be_one_that_a_page_can_link_to(url: str) -> None:
    assert EdgeSettings(console_trace_url="https://jaeger.example/trace/{trace_id}").console_trace_url
    with pytest.raises(
        SettingsError, match="console_trace_url must begin with https:// or http:// and have {trace_id}"
    ):
        EdgeSettings(console_trace_url=url)
