from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_edge.settings import EdgeSettings, WorkerSettings
from antiphon_edge.tools.limits import DEFAULT_LIMITS, ToolLimits
from antiphon_edge.turn_settings import TurnSettings, of_peer


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


def test_half_of_a_certificate_is_rejected_with_the_peers_name() -> None:
    with pytest.raises(SettingsError, match="credentials for the translator: tls_cert_file and tls_key_file"):
        EdgeSettings(translator_tls_cert_file=Path("cert"))
    with pytest.raises(SettingsError, match="The worker's credentials for the store"):
        WorkerSettings(store_tls_cert_file=Path("cert"))


def test_variables_have_the_prefix_of_their_service() -> None:
    assert EdgeSettings.variable("store") == "ANTIPHON_EDGE_STORE"
    assert WorkerSettings.variable("store") == "ANTIPHON_WORKER_STORE"


def test_settings_of_a_peer_are_all_that_begin_with_its_name() -> None:
    assert {"store", "store_token_file", "store_tls_ca_file"} <= set(of_peer("store"))
    assert {"translator", "translator_silence_s"} <= set(of_peer("translator"))
    assert {"tools", "tools_tls_key_file"} <= set(of_peer("tools"))
    peers = {*of_peer("store"), *of_peer("translator"), *of_peer("tools")}
    others = {each.name for each in fields(TurnSettings)} - peers
    others = {name for name in others if not name.startswith("tool_")}
    assert others == {"restart_wait_s", "sealing_keys_file", "sealed_ttl_s", "cache_salt_keys_file"}


def test_limits_of_tools_are_settings_with_bounds() -> None:
    settings = EdgeSettings(tool_rounds=2, tool_calls=3, tool_calls_at_once=1, tool_time_s=5)
    assert settings.tool_limits == ToolLimits(rounds=2, calls=3, parallel=1, time_s=5)
    assert (EdgeSettings().tool_limits, WorkerSettings().tool_limits.time_s) == (DEFAULT_LIMITS, 3_600)
    for name in ("tool_rounds", "tool_calls", "tool_calls_at_once", "tool_time_s"):
        nothing: dict[str, Any] = {name: 0}
        with pytest.raises(SettingsError, match=f"ANTIPHON_WORKER_{name.upper()} must be"):
            WorkerSettings(**nothing)
    with pytest.raises(SettingsError, match="tool_finish_s"):
        EdgeSettings(tool_finish_s=-1)


def test_translator_silence_too_short_for_heartbeats_is_rejected() -> None:
    assert TurnSettings(translator_silence_s=0).translator_silence_s == 0
    for wrong_s in (0.2, 86_401):
        with pytest.raises(SettingsError, match="translator_silence_s must be 0, or 0.25 to 86400"):
            TurnSettings(translator_silence_s=wrong_s)
