"""Which engines there are: the names that a profile's `engine` can have."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from antiphon_core.config import SettingsError
from antiphon_translator.engines.base import Engine
from antiphon_translator.engines.triton_channels import TritonChannels
from antiphon_translator.engines.triton_tokens import TritonTokensEngine
from antiphon_translator.profiles import ModelProfile

ENGINES: Mapping[str, Callable[[ModelProfile, TritonChannels], Engine]] = {
    "triton_tokens": TritonTokensEngine,
}


def create(profile: ModelProfile, channels: TritonChannels) -> Engine:
    """The engine that a profile names; it connects on first use. SettingsError: there is no such engine."""
    factory = ENGINES.get(profile.engine)
    if factory is None:
        raise SettingsError(
            f"Model '{profile.name}': there is no engine '{profile.engine}'; there is {', '.join(ENGINES)}."
        )
    return factory(profile, channels)
