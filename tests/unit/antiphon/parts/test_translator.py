from __future__ import annotations

import pytest

from antiphon.parts.translator import TranslatorPart
from antiphon_core.clock import SystemClock
from antiphon_core.config import SettingsError
from tests.support.local_settings import settings


async def test_translator_without_profiles_raises_settings_error() -> None:
    part = TranslatorPart(settings(), SystemClock())
    with pytest.raises(SettingsError, match="ANTIPHON_TRANSLATOR_PROFILES"):
        await part.start()
