from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.errors import EngineUnavailable
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_detect import engine
from antiphon_translator.generation import Level
from antiphon_translator.models.profiles import ModelProfile
from tests.support.fake_triton import VLLM, fake_triton


async def test_level_is_known_only_after_the_first_request_to_the_server() -> None:
    async with fake_triton(VLLM) as fake:
        found = engine(ModelProfile(name="m", directory=Path(), endpoint=fake.endpoint), TritonChannels())
        with pytest.raises(EngineUnavailable, match="not asked yet"):
            _ = found.level
        assert "min_p" in await found.controls()
        assert found.level is Level.TEXT
        await found.close()
