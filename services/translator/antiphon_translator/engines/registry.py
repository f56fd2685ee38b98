"""The factories of engines, by the name in a profile: a row for each of profiles.ENGINES.

The imports of an engine happen when it is created: a translator for Triton starts without an HTTP client, which costs a
tenth of the start, and one for chat completions starts without Triton's messages, which cost a quarter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from antiphon_core.clock import SystemClock
from antiphon_translator.engines.base import Engine
from antiphon_translator.engines.endpoints import EndpointsEngine
from antiphon_translator.engines.fleet_metrics import FleetMetrics
from antiphon_translator.engines.isolating import IsolatingEngine
from antiphon_translator.engines.reported_load import ReportedLoad, has_metrics
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.watched import WatchedEngine
from antiphon_translator.models.profiles import CHAT_ENGINE, IDS_ENGINE, ModelProfile


def _auto(profile: ModelProfile, channels: TritonChannels) -> Engine:
    from antiphon_translator.engines import triton_detect

    return triton_detect.engine(profile, channels)


def _triton_tokens(profile: ModelProfile, channels: TritonChannels) -> Engine:
    from antiphon_translator.engines import triton_tokens

    return triton_tokens.engine(profile, channels)


def _triton_text(profile: ModelProfile, channels: TritonChannels) -> Engine:
    from antiphon_translator.engines import triton_text

    return triton_text.engine(profile, channels)


def _triton_vllm(profile: ModelProfile, channels: TritonChannels) -> Engine:
    from antiphon_translator.engines import triton_vllm

    return triton_vllm.engine(profile, channels)


def _openai_chat(profile: ModelProfile, _channels: TritonChannels) -> Engine:
    from antiphon_translator.engines.openai_chat import OpenAIChatEngine

    return OpenAIChatEngine(profile)


def _vllm_tokens(profile: ModelProfile, _channels: TritonChannels) -> Engine:
    from antiphon_translator.engines.vllm_tokens import VllmTokensEngine

    return VllmTokensEngine(profile)


ENGINES: Mapping[str, Callable[[ModelProfile, TritonChannels], Engine]] = {
    "auto": _auto,
    "triton_tokens": _triton_tokens,
    "triton_text": _triton_text,
    "triton_vllm": _triton_vllm,
    CHAT_ENGINE: _openai_chat,
    IDS_ENGINE: _vllm_tokens,
}


def create(profile: ModelProfile, channels: TritonChannels, *, translators: int = 1) -> Engine:
    """Creates the engine of a profile, one for each of its endpoints behind an EndpointsEngine. Engines connect on
    first use. `translators` is the number of processes that serve the model."""
    engine = _of_endpoints(profile, channels, translators)
    return IsolatingEngine(engine, profile.name) if profile.kv_isolation == "tenant" else engine


def _of_endpoints(profile: ModelProfile, channels: TritonChannels, translators: int) -> Engine:
    factory = ENGINES[profile.engine]
    if len(profile.endpoints) < 2:
        return WatchedEngine(factory(profile, channels), profile)
    alone = [replace(profile, endpoint=name, endpoints=()) for name in profile.endpoints]
    engines = {each.endpoint: WatchedEngine(factory(each, channels), each) for each in alone}
    return EndpointsEngine(
        engines,
        SystemClock(),
        translators=translators,
        watch=FleetMetrics(profile.name),
        loads=ReportedLoad(profile).fetch if has_metrics(profile) else None,
    )
