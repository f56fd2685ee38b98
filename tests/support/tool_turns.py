"""Turns that call tools of servers: a model with one script for each round, and a tool service in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from antiphon_core import events
from antiphon_core.clock import Clock, SystemClock
from antiphon_core.errors import AntiphonError
from antiphon_core.flow import Flow
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.tools import (
    NO_CREDENTIALS,
    Credentials,
    Listing,
    OnProgress,
    Outcome,
    Tool,
    ToolCall,
    ToolResult,
    ToolServer,
    ignore_progress,
)
from antiphon_core.ports.translator import Batch, Final
from antiphon_core.ports.web_search import SearchHit, SearchQuery
from antiphon_core.request.body import CreateRequest
from antiphon_core.request.hosted_tools import WEB_SEARCH, HostedTools
from antiphon_edge.turns.turn_service import TurnService
from antiphon_edge.turns.turn_timing import TurnTiming
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import ChatChunk, FinishReason, GenerationRequest, Level, ReportedUsage
from antiphon_translator.parsing.segments import Arguments, CallBegin, CallEnd, Segment, Text
from tests.support.in_process import translator_of
from tests.support.served_models import model
from tests.support.server_tools import server
from tests.support.turn_services import turn_service

READ = Tool("search", "Searches.", b'{"type":"object"}', digest="d1", is_read_only=True, is_repeatable=True)
WRITE = Tool("buy", "Buys.", b'{"type":"object"}', digest="d2")
RUN_HERE = HostedTools(WEB_SEARCH | {"mcp"})
OK = ToolResult(Outcome.OK, "Done.")
TIMING = TurnTiming(linger_s=0, silence_s=0.05)


def call(name: str, arguments: str = "{}") -> list[Segment]:
    """Returns the segments of one call."""
    return [CallBegin(name), Arguments(arguments), CallEnd(is_complete=True)]


class RoundsEngine:
    """Plays one list of segments for each generation. The last one is played again."""

    level = Level.CHAT

    def __init__(self, *rounds: Sequence[Segment] | str) -> None:
        self._rounds = rounds
        self.requests: list[GenerationRequest] = []
        self.waits_at: int | None = None
        """The number of the generation that never ends; the first is 0."""
        self.waiting = asyncio.Event()

    async def controls(self) -> frozenset[str]:
        return ALL_CONTROLS

    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        number = len(self.requests)
        self.requests.append(request)
        if number == self.waits_at:
            self.waiting.set()
            await asyncio.Event().wait()
        said = self._rounds[min(number, len(self._rounds) - 1)]
        segments = [Text(said)] if isinstance(said, str) else said
        deliver((ChatChunk(segments, FinishReason.STOP, ReportedUsage(10, 3)),))

    async def ready(self) -> None: ...

    async def close(self) -> None: ...


class FakeTools:
    """A tool service with one server. It records the calls, and answers each with `answer`."""

    def __init__(self, *tools: Tool, answer: ToolResult | Exception = OK) -> None:
        self.listing = Listing("shop", tools or (READ, WRITE))
        self.answer = answer
        self.calls: list[ToolCall] = []
        self.credentials: list[Credentials] = []
        self.list_error: Exception | None = None
        self.hangs = False
        self.called = asyncio.Event()
        self.hits: Sequence[SearchHit] | AntiphonError = (SearchHit("https://example.com/a", "A", "About a."),)
        self.queries: list[SearchQuery] = []
        self.before_call: Callable[[ToolCall], Awaitable[None]] | None = None

    async def list_tools(
        self, tenant: str, server: ToolServer, credentials: Credentials = NO_CREDENTIALS, *, timeout_s: float = 30.0
    ) -> Listing:
        self.credentials.append(credentials)
        if self.list_error is not None:
            raise self.list_error
        return self.listing

    async def call_tool(self, tenant: str, call: ToolCall, on_progress: OnProgress = ignore_progress) -> ToolResult:
        if self.before_call is not None:
            await self.before_call(call)
        self.calls.append(call)
        self.called.set()
        if self.hangs:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def search(self, tenant: str, query: SearchQuery, *, timeout_s: float = 30.0) -> tuple[SearchHit, ...]:
        self.queries.append(query)
        self.called.set()
        if self.hangs:
            await asyncio.Event().wait()
        if isinstance(self.hits, AntiphonError):
            raise self.hits
        return tuple(self.hits)

    async def ready(self) -> None: ...


class ToolTurns:
    """The turns of one edge, with a model and a tool service of a test."""

    def __init__(
        self, store: FullStore, engine: RoundsEngine, tools: FakeTools, *, clock: Clock | None = None, **options: Any
    ) -> None:
        clock = clock or SystemClock()
        options.setdefault("timing", TIMING)
        self.log: list[Object] = []
        self.final: Final | None = None
        translator = translator_of((model(context_length=2**20), engine), clock=clock)
        self.service: TurnService = turn_service(store, translator, clock=clock, tools=tools, **options)

    async def send(self, *, key: str | None = None, **members: Any) -> Object:
        """Runs a turn, and returns its response."""
        body: Object = {"model": "m", "input": "Hi", "tools": [server()], **members}
        request = CreateRequest.of(body, work_bytes=len(dumps(body)), hosted=RUN_HERE)
        await self.service.send("default", request, self._take, Flow(), key=key)
        return self.response

    def _take(self, batch: Batch) -> None:
        self.log += events.decode(batch.frames)
        self.final = batch.final or self.final

    @property
    def types(self) -> list[str]:
        """The types of the events so far."""
        return [event["type"].removeprefix("response.") for event in self.log]

    @property
    def response(self) -> Object:
        """The response in the last event."""
        last: Object = self.log[-1]["response"]
        return last
