"""Token ids over HTTP: `POST /inference/v1/generate` of vLLM (0.11.1 and later) and of a NIM that runs on vLLM.

The prompt is rendered and encoded here, so usage is exact, and another server can continue a stream behind its last
token. A server that shuts down aborts its generations; they raise EngineUnavailable, so that another server continues.
"""

from __future__ import annotations

from antiphon_core.errors import AntiphonError, EngineUnavailable, InvalidRequest
from antiphon_core.flow import Flow
from antiphon_core.jsons import compact
from antiphon_translator.engines import vllm_wire
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.http_streams import HttpModelServer
from antiphon_translator.engines.openai_wire import ListedModel
from antiphon_translator.engines.vllm_wire import TokensReader
from antiphon_translator.generation import GenerationRequest, Level
from antiphon_translator.models.profiles import CHAT_ENGINE, ModelProfile

NAMES_ITEMS_MAX = 20
"""Models of a server that an error lists."""
ROUTE = "/inference/v1/generate"


class VllmTokensEngine:
    """One model, or one adapter of it, on one server."""

    level = Level.TOKENS

    def __init__(self, profile: ModelProfile) -> None:
        self._profile = profile
        self._server = HttpModelServer(profile)
        self._url = self._server.url.removesuffix("/v1") + ROUTE
        self._has_route = False

    async def controls(self) -> frozenset[str]:
        await self._require_route()
        return vllm_wire.CONTROLS

    async def ready(self) -> None:
        """EngineMisconfigured: the server does not list the model, or its adapter."""
        await self._require_route()
        wanted = self._profile.lora or self._profile.served_name
        names = [model.name for model in await self.list_models()]
        if wanted not in names:
            shown = ", ".join(names[:NAMES_ITEMS_MAX]) or "none"
            raise self._server.misconfigured_error(f"has no model '{wanted}'; it lists {shown}")

    async def list_models(self) -> list[ListedModel]:
        """All models of the server, LoRA adapters among them."""
        return await self._server.list_models()

    async def close(self) -> None:
        await self._server.close()

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        await self._require_route()
        route = self._server.route(request)
        body = compact({**vllm_wire.body(request, self._profile.served_name), **route.members})
        try:
            reader = TokensReader(request, self._server.unread)
            await self._server.generate(self._url, body, reader, deliver, flow, route=route, cut_off=EngineUnavailable)
        except InvalidRequest:
            raise  # an error of the request, not of the server
        except AntiphonError:
            self._has_route = False  # a server of another kind may have taken its place
            raise

    async def _require_route(self) -> None:
        """EngineMisconfigured: the server lacks the route. The server is asked once, and again after a failure. Without
        this check, the 404 of such a server would be reported as a missing model."""
        if not self._has_route and not await self._server.has_route(self._url):
            raise self._server.misconfigured_error(
                f'does not serve token ids ({ROUTE}); engine = "{CHAT_ENGINE}" asks it for text'
            )
        self._has_route = True
