"""Searches the web by the provider of the settings, or by a tool of one of the operator's tool servers.

A search has no effect, so it needs no ledger. A failure is a ToolServerFault, never an empty result: a model that is
told that nothing was found says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from antiphon_core import jsons
from antiphon_core.config import SettingsError
from antiphon_core.egress.http_connections import compression_of
from antiphon_core.egress.urls import EgressRules, UrlRejected, check_url
from antiphon_core.errors import InvalidRequest, ToolServerFault
from antiphon_core.jsons import Object
from antiphon_core.ports.tools import Tool
from antiphon_core.ports.web_search import SearchHit, SearchQuery
from antiphon_core.rpc.watched import Watched, read_secret
from antiphon_core.tracebacks import release_frames
from antiphon_tools.connections import Connections
from antiphon_tools.mcp.client import Sending
from antiphon_tools.settings import ToolsSettings
from antiphon_tools.web.providers import PROVIDERS, Provider, WebRequest, select

MCP = "mcp:"
_COUNTS = ("count", "max_results", "numResults", "limit")
_ANYWHERE = EgressRules(permits=lambda _: True, schemes=("https", "http"))


class ConfiguredSearch:
    """The search of the settings. SettingsError: it cannot be used."""

    def __init__(self, settings: ToolsSettings, connections: Connections) -> None:
        self._wire_bytes = settings.wire_bytes
        self._connections = connections
        self._name = settings.web_search
        self._provider: Provider | None = None
        self._key: Watched[str] | None = None
        if self._name and not self._name.startswith(MCP):
            self._provider = _provider(self._name)
            self._url = _url(settings.web_search_url or self._provider.url)
            self._key = _key(settings.web_search_secret_file, self._provider)

    @property
    def server(self) -> str:
        """The operator's tool server that searches; empty if a provider does. InvalidRequest: there is no search."""
        if not self._name:
            raise InvalidRequest("This server does not search the web.", field="tools", code="unsupported_parameter")
        return self._name.removeprefix(MCP) if self._name.startswith(MCP) else ""

    async def ask_provider(self, query: SearchQuery) -> tuple[SearchHit, ...]:
        """The results of the provider. ToolServerFault."""
        if self._provider is None:
            raise InvalidRequest("No provider searches the web here.", field="tools")
        request = self._provider.ask(self._url, self._key.get() if self._key is not None else "", query)
        results = self._provider.results(_parse(await self._fetch(request)))
        if not isinstance(results, list):
            raise ToolServerFault("The search provider answered without results.")
        return select(results, query)

    async def _fetch(self, request: WebRequest) -> bytes:
        session = self._connections.operator_session()
        try:
            async with session.request(
                request.method,
                request.url,
                headers=request.headers,
                data=request.body,
                allow_redirects=False,
                trace_request_ctx=Sending(),
            ) as response:
                if response.status != 200 or compression_of(response) is not None:
                    raise ToolServerFault(f"The search provider answered with the HTTP status {response.status}.")
                return await _bounded(response, self._wire_bytes)
        except (aiohttp.ClientError, OSError) as error:
            release_frames(error)
            raise ToolServerFault("The search provider cannot be reached from here.") from None


async def _bounded(response: aiohttp.ClientResponse, most: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most:
            raise ToolServerFault(f"The search provider answered more than {most} bytes (tools.wire_bytes).")
    return bytes(body)


def tool_arguments(tool: Tool, query: SearchQuery) -> Object:
    """The arguments of a tool that searches: its query, and the number of results if it takes one."""
    properties = jsons.loads(tool.input_schema).get("properties")
    known: Any = properties if isinstance(properties, dict) else {}
    return {"query": query.text} | {name: query.count for name in _COUNTS if name in known}


def tool_hits(text: str, structured: bytes, query: SearchQuery) -> tuple[SearchHit, ...]:
    """The results of a tool that searched: a list, or an object with `results`. ToolServerFault: it has neither."""
    answer = _parse(structured or text.encode())
    results = answer.get("results", answer.get("result"))
    if not isinstance(results, list):
        raise ToolServerFault("The tool that searches the web answered without results.")
    return select(results, query)


def _parse(data: bytes) -> Object:
    """An answer as an object; a list is its results. ToolServerFault: it is no JSON."""
    try:
        return {"results": jsons.parse_array(data)} if data[:1] == b"[" else jsons.parse_object(data)
    except InvalidRequest as error:
        raise ToolServerFault("The answer to a search cannot be read as JSON.") from error


def _provider(name: str) -> Provider:
    if name not in PROVIDERS:
        known = ", ".join(PROVIDERS)
        raise SettingsError(f"ANTIPHON_TOOLS_WEB_SEARCH={name!r}: must be one of {known}, or mcp: and a tool server.")
    return PROVIDERS[name]


def _url(given: str) -> str:
    try:
        return str(check_url(given, _ANYWHERE))
    except UrlRejected as error:
        raise SettingsError(f"ANTIPHON_TOOLS_WEB_SEARCH_URL={given!r}: the URL {error}.") from error


def _key(path: Path | None, provider: Provider) -> Watched[str] | None:
    if path is None:
        if provider.needs_key:
            raise SettingsError("This search provider needs a key: set ANTIPHON_TOOLS_WEB_SEARCH_SECRET_FILE.")
        return None
    return Watched([path], lambda: _read_key(path), setting="web_search_secret_file")


def _read_key(path: Path) -> str:
    key = read_secret(path, "the key of the search provider").strip()
    if not key.isascii() or not key.isprintable() or " " in key or not key:
        raise SettingsError(f"{path} must hold a key: printable ASCII characters without spaces.")
    return key
