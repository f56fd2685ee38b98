"""The Triton engines keep the contract against a fake server with a model of each kind, over both transports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon_translator.engines import triton_detect
from antiphon_translator.engines.base import Engine
from antiphon_translator.engines.triton_channels import Transport, TritonChannels
from antiphon_translator.models.profiles import ModelProfile
from tests.contract.engine.suite import EngineContract, Stage
from tests.support.engine_plays import Play
from tests.support.fake_triton import ENSEMBLE, LLM_API, TOKENS, VLLM, Kind, fake_triton


class OnFakeTriton(EngineContract):
    """The suite for a model of one kind."""

    kind: Kind
    transport: Transport = "lean"

    @pytest.fixture
    async def stage(self) -> AsyncIterator[Stage]:
        async with fake_triton(self.kind) as fake:
            profile = ModelProfile(name="m", directory=Path(), endpoint=fake.endpoint)
            engine = triton_detect.engine(profile, TritonChannels(self.transport))

            def staged(play: Play) -> Engine:
                fake.play(play)
                return engine

            yield staged
            await engine.close()


class TestTritonTokens(OnFakeTriton):
    kind = TOKENS


class TestTritonTokensOverGrpcAio(OnFakeTriton):
    kind = TOKENS
    transport = "grpc"


class TestTritonEnsemble(OnFakeTriton):
    kind = ENSEMBLE


class TestTritonLlmApi(OnFakeTriton):
    kind = LLM_API


class TestTritonVllm(OnFakeTriton):
    kind = VLLM
