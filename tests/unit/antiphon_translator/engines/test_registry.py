from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_translator.engines.registry import ENGINES, create
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_tokens import TritonTokensEngine
from antiphon_translator.profiles import ModelProfile


def profile(engine: str) -> ModelProfile:
    return ModelProfile(name="m", directory=Path(), endpoint="t:1", engine=engine)


def test_a_profile_gets_the_engine_that_it_names() -> None:
    assert isinstance(create(profile("triton_tokens"), TritonChannels()), TritonTokensEngine)
    assert all(create(profile(name), TritonChannels()) for name in ENGINES)


def test_an_unknown_engine_is_told_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="'m': there is no engine 'steam'; there is triton_tokens"):
        create(profile("steam"), TritonChannels())
