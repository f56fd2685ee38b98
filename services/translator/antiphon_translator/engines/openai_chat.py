"""The engine for a server of chat completions (NIM, vLLM, SGLang, llama.cpp): takes a conversation, and streams text,
reasoning and calls. A stream that ends without a finish reason raises EngineFault.
"""

from __future__ import annotations

from antiphon_core.errors import AntiphonError, InvalidRequest
from antiphon_core.flow import Flow
from antiphon_core.jsons import compact
from antiphon_translator.engines import openai_logprobs, openai_wire
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.http_streams import HttpModelServer
from antiphon_translator.engines.openai_wire import Dialect, ListedModel
from antiphon_translator.generation import GenerationRequest, Level
from antiphon_translator.models.profiles import ModelProfile


class OpenAIChatEngine:
    """One model on one server."""

    level = Level.CHAT

    def __init__(self, profile: ModelProfile) -> None:
        self._server = HttpModelServer(profile)
        self._model = profile.served_name
        self._tells_cache_key = profile.cache_hints == "openai"
        self._dialect: Dialect | None = None

    async def controls(self) -> frozenset[str]:
        return (await self._describe()).controls

    async def ready(self) -> None:
        await self._server.models()

    async def list_models(self) -> list[ListedModel]:
        """All models of the server. Raises as `ready`, and EngineFault for a list that cannot be read."""
        return await self._server.list_models()

    async def close(self) -> None:
        await self._server.close()

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        written = openai_wire.body(request, self._model, await self._describe(), tells_cache_key=self._tells_cache_key)
        route = self._server.route(request)
        body = compact({**written, **route.members})
        url = f"{self._server.url}/chat/completions"
        reader = openai_logprobs.reader(request, self._server.unread, body)
        try:
            await self._server.generate(url, body, reader, deliver, flow, route=route)
        except InvalidRequest:
            raise  # an error of the request, not of the server
        except AntiphonError:
            self._dialect = None  # a server of another kind may have taken its place
            raise

    async def _describe(self) -> Dialect:
        """The server's dialect, read once, and again after a failure."""
        if self._dialect is None:
            self._dialect = openai_wire.dialect_of(await self._server.models(), self._model)
        return self._dialect
