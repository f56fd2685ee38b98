"""The engine of a model that isolates its tenants (models/tenant_isolation.py)."""

from __future__ import annotations

from antiphon_core.flow import Flow
from antiphon_translator.engines.base import Deliver, Engine
from antiphon_translator.generation import CACHE_SALT, GenerationRequest, Level
from antiphon_translator.models.tenant_isolation import misconfigured_error


class IsolatingEngine:
    """Wraps the engine of a model that isolates tenants. An engine that takes no salt is never ready: a prompt that is
    sent without one could be shared."""

    def __init__(self, inner: Engine, model: str) -> None:
        self._inner = inner
        self._model = model

    @property
    def level(self) -> Level:
        return self._inner.level

    async def controls(self) -> frozenset[str]:
        controls = await self._inner.controls()
        if CACHE_SALT not in controls:
            raise misconfigured_error(self._model, "its engine takes no cache salt")
        return controls

    async def ready(self) -> None:
        await self._inner.ready()
        await self.controls()

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        await self._inner.generate(request, deliver, flow)

    async def close(self) -> None:
        await self._inner.close()
