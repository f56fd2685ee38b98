"""The edge as a part of a process: its HTTP application, listening socket and drain."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from aiohttp import web

from antiphon_core.byte_budget import ByteBudget
from antiphon_core.clock import Clock
from antiphon_core.drain_time import DrainTime
from antiphon_core.errors import Unavailable
from antiphon_core.ids import Ids
from antiphon_core.limits import BODY_BYTES_MAX
from antiphon_core.ports.full_store import FullStore
from antiphon_core.ports.quotas import Quotas
from antiphon_core.ports.tools import Tools
from antiphon_core.ports.translator import Translator
from antiphon_core.process_load import ProcessLoad
from antiphon_core.request.hosted_tools import WEB_SEARCH, HostedTools
from antiphon_core.rpc.addresses import is_loopback
from antiphon_core.telemetry.exposition import Exposition
from antiphon_edge.access_checks import AccessChecks, OwnPages
from antiphon_edge.background.background import Background
from antiphon_edge.callers.authentication import Authenticator
from antiphon_edge.compaction.compacting_translator import CompactingTranslator
from antiphon_edge.console.routes import ConsoleRoutes
from antiphon_edge.http import connections, dropped_tools, request_ids
from antiphon_edge.http.connection_table import ConnectionLimits, ConnectionTable
from antiphon_edge.http.connections import WriteBounds
from antiphon_edge.http.cors import Cors
from antiphon_edge.http.http_server import HttpServer
from antiphon_edge.http.listener import listen
from antiphon_edge.http.request_ids import RequestsInProgress
from antiphon_edge.openapi.routes import DocumentRoutes
from antiphon_edge.operations.routing import routes_of
from antiphon_edge.operations.table import Access
from antiphon_edge.prewarming import PrewarmingTranslator
from antiphon_edge.quotas import admission
from antiphon_edge.quotas.counting import OwnShare, SharedCounts
from antiphon_edge.quotas.load_shedding import LoadLimits, LoadShedder
from antiphon_edge.quotas.long_work import LongWork
from antiphon_edge.quotas.metering import Meter
from antiphon_edge.quotas.rate_limits import RateLimiter, RateLimits
from antiphon_edge.quotas.response_readers import ResponseReaders
from antiphon_edge.routes import bodies
from antiphon_edge.routes.approvals import ApprovalRoutes
from antiphon_edge.routes.cache import CacheRoutes
from antiphon_edge.routes.chat import ChatRoutes
from antiphon_edge.routes.compact import CompactRoutes
from antiphon_edge.routes.conversations import ConversationRoutes
from antiphon_edge.routes.prompts import PromptRoutes
from antiphon_edge.routes.readiness import Readiness
from antiphon_edge.routes.response_list import ResponseList
from antiphon_edge.routes.responses import ResponseRoutes
from antiphon_edge.routes.service import ServiceRoutes
from antiphon_edge.routes.tree import TreeRoutes
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.settings import EdgeSettings
from antiphon_edge.store_calls import retrying
from antiphon_edge.turns.ended_turns import EndedTurns
from antiphon_edge.turns.turn_parts import TurnParts, turn_service
from antiphon_edge.turns.turn_timing import TurnTiming
from antiphon_edge.websocket.routes import SocketRoutes

ENDING_S = 3.0
"""How long responses that are broken off get for their records and last events."""
_CUT_OFF_S = 0.5


class EdgeServer:
    """Serves HTTP with a store and a translator, of this process or remote. `start` sets `url`."""

    name = "edge"
    work = "response"

    def __init__(
        self,
        settings: EdgeSettings,
        store: FullStore,
        translator: Translator,
        *,
        clock: Clock,
        ids: Ids,
        sealer: Sealer | None = None,
        shares_port: bool = False,
        exposition: Exposition | None = None,
        opens_metrics: bool = False,
        drain_time: DrainTime | None = None,
        tools: Tools | None = None,
    ) -> None:
        """Without a `sealer`, one is made from the settings. With `shares_port`, other processes may listen on the
        port, too. `exposition` has the metrics of the process; with `opens_metrics` they need no authentication.
        The drain of `stop` counts from the beginning of `drain_time`. `tools` calls tools of servers."""
        self._shares_port = shares_port
        self._settings = settings
        store = retrying(store, restart_wait_s=settings.restart_wait_s)
        self._clock = clock
        self._drain_time = drain_time or DrainTime(clock)
        self._requests = RequestsInProgress()
        self._ids = ids
        self.url = ""
        self._limiter = _limiter(settings, store, clock=clock, ids=ids)
        meter = _meter(self._limiter)
        self._long_work = LongWork(settings.long_bytes_per_tenant)
        self._readers = ResponseReaders(settings.readers_per_response)
        translator = PrewarmingTranslator(CompactingTranslator(translator, clock=clock), clock=clock)
        self._parts = self._turn_parts(store, translator, sealer or _sealer(settings, clock), tools)
        self._turns = turn_service(self._parts, meter=meter, readers=self._readers)
        self._service = _service_routes(settings, store, translator, exposition or Exposition([self.name]), clock)
        self._hosted = _hosted_tools(settings, tools)
        self._sockets = self._socket_routes()
        self._cors = Cors(settings.cors_origins) if settings.cors_origins else None
        self.app = web.Application(client_max_size=BODY_BYTES_MAX)
        self._add_access_checks(opens_metrics=opens_metrics)
        self._add_routes(meter)

    def _turn_parts(self, store: FullStore, translator: Translator, sealer: Sealer, tools: Tools | None) -> TurnParts:
        settings = self._settings
        return TurnParts.of(
            store,
            translator,
            clock=self._clock,
            ids=self._ids,
            sealer=sealer,
            timing=TurnTiming(linger_s=settings.event_log_linger_ms / 1000),
            wait_ms=settings.conversation_wait_ms,
            long_work=self._long_work,
            tools=tools,
            tool_limits=replace(settings.tool_limits, finish_s=settings.tool_finish_s),
            remembered_s=settings.remembered_lineages_s,
        )

    def _socket_routes(self) -> SocketRoutes:
        parts = self._parts
        return SocketRoutes(
            self._turns,
            parts.starter,
            keep_alive_s=self._settings.keep_alive_s,
            lifetime_s=self._settings.websocket_max_s,
            lanes=self._settings.websocket_lanes,
            origins=self._settings.cors_origins,
            hosted=self._hosted,
            listing=ResponseList(parts.fail_fast_store),
        )

    def _add_routes(self, meter: Meter) -> None:
        parts, turns, keep_alive_s = self._parts, self._turns, self._settings.keep_alive_s
        store = parts.fail_fast_store
        owners: list[object] = [
            ResponseRoutes(
                turns,
                Background(parts, store, readers=self._readers),
                store,
                parts.sealer,
                keep_alive_s=keep_alive_s,
                has_keep_alive_events=self._settings.keep_alive == "event",
                hosted=self._hosted,
            ),
            self._service,
            self._sockets,
            CompactRoutes(parts.starter, parts.translator, parts.sealer, meter=meter, hosted=self._hosted),
            ConversationRoutes(store, ids=self._ids, sealer=parts.sealer),
            PromptRoutes(store, ids=self._ids),
            ApprovalRoutes(store),
            TreeRoutes(store),
            CacheRoutes(store, parts.translator, EndedTurns(store, self._long_work)),
            ChatRoutes(turns, keep_alive_s=keep_alive_s),
            DocumentRoutes(),
        ]
        if self._settings.console:
            owners.append(ConsoleRoutes(trace_url=self._settings.console_trace_url))
        self.app.add_routes(routes_of(*owners))

    def _add_access_checks(self, *, opens_metrics: bool) -> None:
        """Adds the checks of access, and what they read from the application."""
        settings, prepare = self._settings, self.app.on_response_prepare
        prepare.append(request_ids.add_headers)
        if settings.hosted_tools == "drop":
            prepare.append(dropped_tools.add_header)
        if self._cors is not None:
            prepare.append(self._cors.add_headers)
        authenticator = Authenticator.of(settings, self._clock)
        self.app.middlewares.append(self._checks(authenticator, opens_metrics=opens_metrics).middleware())  # type: ignore[arg-type]
        limits = ConnectionLimits.of(settings)
        self._connections = ConnectionTable(limits, is_exempt=authenticator.trusts, now_s=self._clock.monotonic)
        budget = ByteBudget("bodies", total=settings.bodies_bytes_max, share=settings.bodies_bytes_per_tenant)
        bodies.set_budget(self.app, budget)
        admission.set_limiter(self.app, self._limiter)
        admission.set_long_work(self.app, self._long_work)
        if RateLimits.of(settings).has_any:
            prepare.append(admission.add_headers)
        connections.set_bounds(self.app, WriteBounds.of(settings))
        prepare.append(connections.bound_answer)
        prepare.append(self._close_when_draining)

    def _checks(self, authenticator: Authenticator, *, opens_metrics: bool) -> AccessChecks:
        settings = self._settings
        opened = {Access.METRICS: opens_metrics, Access.MODELS: settings.models_open}
        is_local = is_loopback(settings.host) and not settings.insecure
        return AccessChecks(
            authenticator,
            opened={access for access, is_open in opened.items() if is_open},
            cors=self._cors,
            own_pages=None if settings.knows_callers else OwnPages(settings.cors_origins, is_local),
        )

    async def _close_when_draining(self, _request: web.Request, response: web.StreamResponse) -> None:
        if self._service.is_draining:
            response.force_close()

    async def start(self) -> None:
        # aiohttp cancels a handler when its client disconnects, and the cancellation stops the model.
        self._runner = web.AppRunner(self.app, handler_cancellation=True)
        await self._runner.setup()
        self._http = HttpServer(
            cast(web.Server, self._runner.server),
            ids=self._ids,
            cors=self._cors,
            read_timeout_s=self._settings.read_timeout_s,
            table=self._connections,
            requests=self._requests,
        )
        self._listener = await listen(
            self._http,
            self._settings.host,
            self._settings.port,
            table=self._connections,
            shares_port=self._shares_port,
        )
        host, port = self._listener.address[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def drain_s(self) -> float:
        return self._settings.drain_s

    @property
    def running(self) -> int:
        """The number of running responses."""
        return self._turns.running

    async def stop(self) -> None:
        """Takes no more requests, and waits for running ones for what is left of the drain. Then responses without a
        key fail with an error that asks the client to repeat the request, and the others go on at another edge."""
        self._service.is_draining = True
        self._listener.close()
        self._connections.shed_all()
        self._sockets.leave()
        await self._requests.wait_end(self._drain_time.left_s(self._settings.drain_s))
        await self._turns.break_off(Unavailable.at_shutdown("Send the request again."))
        await self._requests.wait_end(ENDING_S)
        await self._sockets.abort()
        self._http.pre_shutdown()
        await self._http.shutdown(_CUT_OFF_S)  # cancels what still runs, such as requests that follow a response
        await self._runner.cleanup()
        await self._turns.settle()
        await self._limiter.close()


def _sealer(settings: EdgeSettings, clock: Clock) -> Sealer:
    return Sealer.of(
        settings.sealing_keys_file, ttl_s=settings.sealed_ttl_s, clock=clock, grace_s=settings.secrets_grace_s
    )


def _meter(limiter: RateLimiter) -> Meter:
    return Meter(limiter.charge if limiter.counts_tokens else None)


def _service_routes(
    settings: EdgeSettings, store: FullStore, translator: Translator, exposition: Exposition, clock: Clock
) -> ServiceRoutes:
    return ServiceRoutes(store, translator, exposition, Readiness(hold_s=settings.restart_wait_s, clock=clock))


def _hosted_tools(settings: EdgeSettings, tools: Tools | None) -> HostedTools:
    """The treatment of hosted tools: those of MCP servers run here if something calls them, and searches of the web if
    the operator has a provider."""
    run_here = frozenset() if tools is None else frozenset({"mcp", *(WEB_SEARCH if settings.web_search else ())})
    return HostedTools(run_here, are_dropped=settings.hosted_tools == "drop")


def _limiter(settings: EdgeSettings, store: Quotas, *, clock: Clock, ids: Ids) -> RateLimiter:
    own = OwnShare(settings.replicas, clock)
    counts = SharedCounts(store, own, clock) if settings.shared_limits else own
    shedder = LoadShedder(LoadLimits.of(settings), ProcessLoad(memory_limit_bytes=settings.memory_limit_bytes))
    return RateLimiter(
        RateLimits.of(settings),
        counts,
        clock=clock,
        ids=ids,
        slot_ttl_s=settings.stream_slot_ttl_s,
        shedder=shedder,
    )
