from __future__ import annotations

from dataclasses import fields

import pytest

from antiphon_core.config import SettingsError
from antiphon_translator.settings import TranslatorSettings


def test_every_setting_has_a_description() -> None:
    assert all(field.metadata["doc"].endswith(".") for field in fields(TranslatorSettings))


@pytest.mark.parametrize(("host", "count"), [("127.0.0.1", 0), ("::1", 0), ("0.0.0.0", 1)])
def test_public_host_with_insecure_is_warned_about(host: str, count: int) -> None:
    assert len(list(TranslatorSettings(host=host, insecure=True).warnings())) == count


def test_private_media_addresses_without_hosts_are_warned_about() -> None:
    assert len(list(TranslatorSettings(media_private_addresses=True).warnings())) == 1
    assert not list(TranslatorSettings(media_private_addresses=True, media_hosts=("images.example",)).warnings())


def test_public_host_without_a_token_file_is_rejected() -> None:
    with pytest.raises(SettingsError, match="ANTIPHON_TRANSLATOR_TOKEN_FILE"):
        TranslatorSettings(host="0.0.0.0")
