from __future__ import annotations

from dataclasses import fields

import pytest

from antiphon_core.config import SettingsError
from antiphon_translator.settings import TranslatorSettings


def test_every_setting_says_what_it_is() -> None:
    assert all(field.metadata["doc"].endswith(".") for field in fields(TranslatorSettings))


@pytest.mark.parametrize(("host", "count"), [("127.0.0.1", 0), ("::1", 0), ("0.0.0.0", 1)])
def test_an_open_address_is_warned_of(host: str, count: int) -> None:
    assert len(list(TranslatorSettings(host=host, insecure=True).warnings())) == count


def test_a_way_into_the_private_network_is_warned_of() -> None:
    assert len(list(TranslatorSettings(media_private_addresses=True).warnings())) == 1
    assert not list(TranslatorSettings(media_private_addresses=True, media_hosts=("images.example",)).warnings())


def test_an_open_address_needs_callers_that_are_known() -> None:
    with pytest.raises(SettingsError, match="ANTIPHON_TRANSLATOR_TOKEN_FILE"):
        TranslatorSettings(host="0.0.0.0")
