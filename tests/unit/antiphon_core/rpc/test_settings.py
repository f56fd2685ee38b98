from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from antiphon_core.config import SettingsError, load
from antiphon_core.rpc.settings import RpcServerSettings

FILE = Path("x")


@dataclass(frozen=True, slots=True)
class Pump(RpcServerSettings):
    section: ClassVar[str] = "pump"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_a_loopback_host_needs_no_authentication(host: str) -> None:
    assert list(Pump(host=host).access_warnings()) == []


@pytest.mark.parametrize("more", [{}, {"tls_cert_file": FILE, "tls_key_file": FILE}], ids=["plain", "encrypted"])
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "store", ""])
def test_an_open_host_without_authentication_is_rejected_with_remedies(host: str, more: dict[str, Any]) -> None:
    with pytest.raises(SettingsError) as caught:
        Pump(host=host, **more)
    for word in (
        "The pump would listen on",
        "ANTIPHON_PUMP_TOKEN_FILE",
        "ANTIPHON_PUMP_TLS_CLIENT_CA_FILE",
        "127.0.0.1",
        "ANTIPHON_PUMP_INSECURE",
    ):
        assert word in str(caught.value)


def test_loading_settings_rejects_an_open_host_without_authentication() -> None:
    environ = {"ANTIPHON_PUMP_HOST": "0.0.0.0"}
    with pytest.raises(SettingsError, match="ANTIPHON_PUMP_TOKEN_FILE"):
        load({"pump": Pump}, environ=environ)
    assert load({"pump": Pump}, environ=environ | {"ANTIPHON_PUMP_INSECURE": "true"})["pump"].insecure


MTLS = {"tls_cert_file": FILE, "tls_key_file": FILE, "tls_client_ca_file": FILE}


@pytest.mark.parametrize(
    ("more", "access", "warned_of"),
    [
        ({"insecure": True}, "no authentication", "not authenticated"),
        ({"token_file": FILE}, "tokens", "without encryption"),
        ({"token_file": FILE, "tls_cert_file": FILE, "tls_key_file": FILE}, "tokens, TLS", None),
        (MTLS, "client certificates, TLS", None),
        ({**MTLS, "token_file": FILE}, "tokens and client certificates, TLS", None),
    ],
)
def test_an_open_host_is_accepted_with_authentication_or_as_insecure(
    more: dict[str, Any], access: str, warned_of: str | None
) -> None:
    settings = Pump(host="0.0.0.0", **more)
    assert settings.access() == access
    warnings = list(settings.access_warnings())
    if warned_of is None:
        assert warnings == []
    else:
        ((message, explanation),) = warnings
        assert warned_of in message
        assert explanation


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"tls_cert_file": FILE}, "ANTIPHON_PUMP_TLS_CERT_FILE and ANTIPHON_PUMP_TLS_KEY_FILE need each other"),
        ({"tls_key_file": FILE}, "need each other"),
        ({"tls_client_ca_file": FILE}, "ANTIPHON_PUMP_TLS_CLIENT_CA_FILE needs ANTIPHON_PUMP_TLS_CERT_FILE"),
    ],
)
def test_incomplete_tls_files_are_rejected(more: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Pump(**more)
