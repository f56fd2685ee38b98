"""The token-level Triton engine keeps the contract, against a fake server of the same protobufs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon_translator.engines.base import Engine
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_tokens import TritonTokensEngine
from antiphon_translator.profiles import ModelProfile
from tests.contract.engine.suite import EngineContract, Stage
from tests.support.engine_plays import Play
from tests.support.fake_triton import fake_triton


class TestTritonTokens(EngineContract):
    @pytest.fixture
    async def stage(self) -> AsyncIterator[Stage]:
        async with fake_triton() as fake:
            profile = ModelProfile(name="m", directory=Path(), endpoint=fake.endpoint)
            engine = TritonTokensEngine(profile, TritonChannels())

            def staged(play: Play) -> Engine:
                fake.play(play)
                return engine

            yield staged
            await engine.close()
