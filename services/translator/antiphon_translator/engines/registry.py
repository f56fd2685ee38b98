"""The factories of engines, by the name in a profile: a row for each of profiles.ENGINES."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from antiphon_core.clock import SystemClock
from antiphon_core.telemetry import metrics
from antiphon_translator.engines import triton_detect, triton_text, triton_tokens, triton_vllm
from antiphon_translator.engines.base import Engine
from antiphon_translator.engines.endpoints import EndpointsEngine
from antiphon_translator.engines.openai_chat import OpenAIChatEngine
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.vllm_tokens import VllmTokensEngine
from antiphon_translator.engines.watched import WatchedEngine
from antiphon_translator.models.profiles import CHAT_ENGINE, IDS_ENGINE, ModelProfile

ENGINES: Mapping[str, Callable[[ModelProfile, TritonChannels], Engine]] = {
    "auto": triton_detect.engine,
    "triton_tokens": triton_tokens.engine,
    "triton_text": triton_text.engine,
    "triton_vllm": triton_vllm.engine,
    CHAT_ENGINE: lambda profile, _: OpenAIChatEngine(profile),
    IDS_ENGINE: lambda profile, _: VllmTokensEngine(profile),
}


def create(profile: ModelProfile, channels: TritonChannels) -> Engine:
    """Creates the engine of a profile, one for each of its endpoints behind an EndpointsEngine. Engines connect on
    first use."""
    factory = ENGINES[profile.engine]
    if len(profile.endpoints) < 2:
        return WatchedEngine(factory(profile, channels), profile)
    alone = [replace(profile, endpoint=name, endpoints=()) for name in profile.endpoints]
    engines = {each.endpoint: WatchedEngine(factory(each, channels), each) for each in alone}
    migrations = metrics.ENGINE_MIGRATIONS.of(profile.name)
    return EndpointsEngine(engines, SystemClock(), on_migration=migrations.add)
