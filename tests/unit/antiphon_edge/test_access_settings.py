from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Any, ClassVar

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError, load
from antiphon_edge.access_settings import AccessSettings
from antiphon_edge.callers.authentication import Authenticator
from antiphon_edge.http.connections import WriteBounds
from antiphon_edge.quotas.rate_limits import RateLimits
from tests.support.api_keys import KeyFiles

FILE = Path("x")
KEYS: dict[str, Any] = {"keys_file": FILE, "keys_pepper_file": FILE}
PROXIES: dict[str, Any] = {"trusted_proxies": ("10.0.0.0/8", "fd00::/64")}


class EdgeLike(AccessSettings):
    """Access settings with a section, which `load` needs."""

    section: ClassVar[str] = "edge"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_host_needs_no_authentication(host: str) -> None:
    settings = AccessSettings(host=host)
    assert list(settings.access_warnings()) == []
    assert (settings.access(), settings.knows_callers) == ("no authentication", False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "edge", "", "localhost.example.com"])
def test_public_host_without_authentication_is_rejected_with_the_remedies(host: str) -> None:
    with pytest.raises(SettingsError) as caught:
        AccessSettings(host=host)
    for word in (
        f"The edge would listen on {host}",
        "ANTIPHON_EDGE_KEYS_FILE",
        "antiphon keys create",
        "ANTIPHON_EDGE_TRUSTED_PROXIES",
        "127.0.0.1",
        "ANTIPHON_EDGE_INSECURE",
    ):
        assert word in str(caught.value)


def test_public_host_without_authentication_is_rejected_when_settings_load() -> None:
    environ = {"ANTIPHON_EDGE_HOST": "0.0.0.0"}
    with pytest.raises(SettingsError, match="ANTIPHON_EDGE_KEYS_FILE"):
        load({"edge": EdgeLike}, environ=environ)
    assert load({"edge": EdgeLike}, environ=environ | {"ANTIPHON_EDGE_INSECURE": "true"})["edge"].insecure


@pytest.mark.parametrize(
    ("more", "access", "warned_of"),
    [
        ({"insecure": True}, "no authentication", "requests are not authenticated"),
        (KEYS, "API keys", None),
        (PROXIES, "trusted proxies", None),
        ({**KEYS, **PROXIES}, "API keys and trusted proxies", None),
        ({**KEYS, "insecure": True}, "API keys", None),
        ({"trusted_proxies": ("0.0.0.0/0",)}, "trusted proxies", "trusts every address"),
        ({"trusted_proxies": ("::/0",)}, "trusted proxies", "trusts every address"),
    ],
)
def test_public_host_with_authentication_or_insecure_is_accepted(
    more: dict[str, Any], access: str, warned_of: str | None
) -> None:
    settings = AccessSettings(host="0.0.0.0", **more)
    assert settings.access() == access
    warnings = list(settings.access_warnings())
    if warned_of is None:
        assert warnings == []
    else:
        ((message, explanation),) = warnings
        assert warned_of in message
        assert explanation


def test_insecure_does_not_turn_keys_off(tmp_path: Path) -> None:
    files = KeyFiles(tmp_path)
    files.make("acme")
    assert Authenticator.of(AccessSettings(insecure=True, **files.settings), ManualClock()).keys is not None


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"keys_file": FILE}, "ANTIPHON_EDGE_KEYS_FILE and ANTIPHON_EDGE_KEYS_PEPPER_FILE need each other"),
        ({"keys_pepper_file": FILE}, "need each other"),
        ({"trusted_proxies": ("10.0.0.0/8", "proxy")}, "ANTIPHON_EDGE_TRUSTED_PROXIES has 'proxy', which is no net"),
        ({"trusted_proxies": ("10.0.0.1/8",)}, "has '10.0.0.1/8', which is no network .* has host bits set"),
        ({"cors_origins": ("app.example.com",)}, "ANTIPHON_EDGE_CORS_ORIGINS has 'app.example.com'; an origin is"),
        ({"cors_origins": ("https://app.example.com/",)}, "without a path"),
        ({"requests_per_minute": -1}, "ANTIPHON_EDGE_REQUESTS_PER_MINUTE must be 0 or more, but is -1"),
        ({"tokens_per_minute": -1}, "ANTIPHON_EDGE_TOKENS_PER_MINUTE must be 0 or more"),
        ({"streams_per_tenant": -1}, "ANTIPHON_EDGE_STREAMS_PER_TENANT must be 0 or more"),
        ({"replicas": 0}, "ANTIPHON_EDGE_REPLICAS must be 1 or more"),
        ({"send_buffer_bytes": 4_095}, "ANTIPHON_EDGE_SEND_BUFFER_BYTES must be 4096 or more"),
        ({"read_timeout_s": 0.0}, "ANTIPHON_EDGE_READ_TIMEOUT_S must be more than 0 and at most 3600 seconds"),
        ({"write_timeout_s": 0.0}, "ANTIPHON_EDGE_WRITE_TIMEOUT_S must be more than 0 and at most 3600 seconds"),
        ({"write_timeout_s": 3_601.0}, "but is 3601"),
        ({"write_timeout_s": float("nan")}, "but is nan"),
    ],
)
def test_invalid_access_setting_is_rejected_by_name(more: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        AccessSettings(**more)


@pytest.mark.parametrize("origins", [("*",), ("https://app.example.com", "http://localhost:3000", "capacitor://app")])
def test_valid_cors_origins_are_accepted(origins: tuple[str, ...]) -> None:
    assert AccessSettings(cors_origins=origins).cors_origins == origins


def test_networks_and_origins_are_read_from_a_comma_separated_list() -> None:
    environ = {"ANTIPHON_EDGE_TRUSTED_PROXIES": "10.0.0.0/8, fd00::/64", "NIM_CORS_ALLOW_ORIGINS": "*"}
    loaded = load({"edge": EdgeLike}, environ=environ)["edge"]
    assert loaded.networks() == (ip_network("10.0.0.0/8"), ip_network("fd00::/64"))
    assert loaded.cors_origins == ("*",)


def test_authenticator_has_the_keys_and_proxies_of_its_settings(tmp_path: Path) -> None:
    files = KeyFiles(tmp_path)
    secret = files.make("acme")
    authenticator = Authenticator.of(AccessSettings(**files.settings, **PROXIES), ManualClock())
    assert authenticator.keys is not None
    assert authenticator.keys.identify(secret).tenant == "acme"
    assert authenticator.trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("fd00::/64"))
    alone = Authenticator.of(AccessSettings(**PROXIES), ManualClock())
    assert (alone.keys, len(alone.trusted_proxies)) == (None, 2)


def test_unreadable_key_files_are_rejected_when_the_authenticator_is_made(tmp_path: Path) -> None:
    files = KeyFiles(tmp_path)
    with pytest.raises(SettingsError, match="Cannot read the pepper"):
        Authenticator.of(AccessSettings(**files.settings), ManualClock())


def test_rate_limits_and_write_bounds_come_from_the_settings() -> None:
    settings = AccessSettings(
        requests_per_minute=1,
        tokens_per_minute=2,
        streams_per_tenant=3,
        replicas=4,
        shared_limits=False,
        stream_slot_ttl_s=5,
        write_timeout_s=5.0,
        send_buffer_bytes=8_192,
    )
    assert RateLimits.of(settings) == RateLimits(1, 2, 3)
    assert (settings.replicas, settings.shared_limits, settings.stream_slot_ttl_s) == (4, False, 5)
    assert WriteBounds.of(settings) == WriteBounds(5.0, 8_192)
    assert not RateLimits.of(AccessSettings()).has_any
    assert AccessSettings().shared_limits


@pytest.mark.parametrize("seconds", [0, 0.5, 3_601, float("nan")])
def test_stream_slot_ttl_out_of_range_is_rejected(seconds: float) -> None:
    with pytest.raises(SettingsError, match="STREAM_SLOT_TTL_S must be 1 to 3600 seconds"):
        AccessSettings(stream_slot_ttl_s=seconds)
