from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from antiphon_translator.engines.base import Engine
from antiphon_translator.engines.endpoints import EndpointsEngine
from antiphon_translator.engines.isolating import IsolatingEngine
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.engines.registry import ENGINES, create
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_stream import TritonEngine
from antiphon_translator.engines.watched import WatchedEngine
from antiphon_translator.generation import Level
from antiphon_translator.models import profiles
from antiphon_translator.models.profiles import ModelProfile

LEVELS = {
    "triton_tokens": Level.TOKENS,
    "triton_text": Level.TEXT,
    "triton_vllm": Level.TEXT,
    "openai_chat": Level.CHAT,
    "vllm_tokens": Level.TOKENS,
}


def profile(engine: str, *endpoints: str) -> ModelProfile:
    return ModelProfile(name="m", directory=Path(), endpoint="t:1", engine=engine, endpoints=endpoints)


def inner(engine: Engine) -> Engine:
    """The engine inside the watched engine."""
    assert isinstance(engine, WatchedEngine)
    return engine._inner


def test_profile_gets_its_configured_engine() -> None:
    assert {name: create(profile(name), TritonChannels()).level for name in LEVELS} == LEVELS
    assert isinstance(inner(create(profile("triton_tokens"), TritonChannels())), TritonEngine)
    assert isinstance(inner(create(profile("openai_chat"), TritonChannels())), OpenAIChatEngine)
    assert set(ENGINES) == set(profiles.ENGINES) == {"auto", *LEVELS}


def test_engine_of_a_model_that_isolates_tenants_is_wrapped() -> None:
    isolating = replace(profile("triton_tokens", "t:1", "t:2"), kv_isolation="tenant")
    assert isinstance(create(isolating, TritonChannels()), IsolatingEngine)


def test_engine_of_several_endpoints_knows_the_translators_and_polls_loads() -> None:
    made = create(profile("triton_tokens", "t:1", "u:1"), TritonChannels(), translators=4)
    assert isinstance(made, EndpointsEngine)
    assert (made._choice._translators, made._polls is not None) == (4, True)
    behind_tls = create(profile("vllm_tokens", "https://t/v1", "https://u/v1"), TritonChannels())
    assert isinstance(behind_tls, EndpointsEngine)
    assert behind_tls._polls is None


def test_several_endpoints_make_one_endpoints_engine() -> None:
    assert isinstance(create(profile("triton_tokens", "t:1", "t:2"), TritonChannels()), EndpointsEngine)
    assert isinstance(inner(create(profile("triton_tokens", "t:1"), TritonChannels())), TritonEngine)
