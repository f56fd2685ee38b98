from __future__ import annotations

import pytest

from antiphon_core.config import SettingsError, declared_settings, load
from antiphon_store.settings import StoreSettings

SECTIONS = {"store": StoreSettings}


def test_every_setting_is_documented() -> None:
    assert all(setting.doc for setting in declared_settings(SECTIONS))


def test_settings_load_from_the_environment() -> None:
    environ = {
        "ANTIPHON_STORE_URL": "sqlite:///a.db",
        "ANTIPHON_STORE_DURABILITY": "process",
        "ANTIPHON_STORE_DEFAULT_TTL_S": "60",
        "ANTIPHON_STORE_MAX_TTL_S": "3600",
        "ANTIPHON_STORE_PORT": "0",
    }
    expected = StoreSettings(url="sqlite:///a.db", durability="process", default_ttl_s=60, max_ttl_s=3600, port=0)
    assert load(SECTIONS, environ=environ)["store"] == expected


def test_an_empty_default_ttl_means_no_expiry() -> None:
    settings = load(SECTIONS, environ={"ANTIPHON_STORE_DEFAULT_TTL_S": ""})["store"]
    assert settings.default_ttl_s is None


@pytest.mark.parametrize(
    "values",
    [
        {"default_ttl_s": 0},
        {"max_ttl_s": -1},
        {"lease_poll_ms": 0},
        {"queue_watch_s": 0},
        {"default_ttl_s": 61, "max_ttl_s": 60},
        {"default_ttl_s": None, "max_ttl_s": 60},
    ],
)
def test_impossible_settings_are_refused(values: dict[str, int | None]) -> None:
    with pytest.raises(SettingsError, match=f"(?i){next(iter(values))}"):
        StoreSettings(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (StoreSettings(url="memory://"), "memory only"),
        (StoreSettings(url="sqlite:///a.db", durability="process"), "loses power"),
        (StoreSettings(url="redis://localhost", durability="memory"), "is restarted"),
        (StoreSettings(url="sqlite:///a.db", host="0.0.0.0", insecure=True), "callers are not authenticated"),
    ],
)
def test_risky_settings_are_warned_about(settings: StoreSettings, words: str) -> None:
    ((message, explanation),) = settings.warnings()
    assert words in message
    assert explanation


def test_safe_settings_have_no_warning() -> None:
    assert not list(StoreSettings(url="sqlite:///a.db").warnings())


def test_an_open_address_without_authentication_is_rejected() -> None:
    with pytest.raises(SettingsError, match="ANTIPHON_STORE_TOKEN_FILE"):
        StoreSettings(host="0.0.0.0")
