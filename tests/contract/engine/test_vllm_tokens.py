"""The engine of token ids over HTTP keeps the contract, against a fake server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon_translator.engines.base import Engine
from antiphon_translator.engines.vllm_tokens import VllmTokensEngine
from antiphon_translator.models.profiles import ModelProfile
from tests.contract.engine.suite import EngineContract, Stage
from tests.support.engine_plays import Play
from tests.support.fake_generate import fake_generate


class TestVllmTokens(EngineContract):
    @pytest.fixture
    async def stage(self) -> AsyncIterator[Stage]:
        async with fake_generate() as fake:
            engine = VllmTokensEngine(ModelProfile(name="m", directory=Path(), endpoint=fake.endpoint))

            def staged(play: Play) -> Engine:
                fake.play(play)
                return engine

            yield staged
            await engine.close()
