"""The store as a part of a process: its rows, its service, its gRPC server and its background tasks."""

from __future__ import annotations

from antiphon.settings import Settings
from antiphon_core.clock import Clock
from antiphon_core.drain_time import DrainTime
from antiphon_core.rpc.addresses import address
from antiphon_core.rpc.intake import IntakeLimits
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.server import RpcServer
from antiphon_store import server as store_server
from antiphon_store.background.queue_watch import QueueWatch
from antiphon_store.background.sweeper import Sweeper
from antiphon_store.encryption import configured_rows
from antiphon_store.service import StoreService


class StorePart:
    name = "store"
    work = "call"

    def __init__(
        self, settings: Settings, clock: Clock, *, shares_port: bool = False, drain_time: DrainTime | None = None
    ) -> None:
        self._shares_port = shares_port
        self._drain_time = drain_time or DrainTime(clock)
        self._settings = settings.store
        self._rows = configured_rows.rows_of(self._settings, migrate=self._settings.migrate, clock=clock)
        self.service = StoreService(self._rows, self._settings)
        self._queue_watch = QueueWatch(self.service.queue_head, every_s=self._settings.queue_watch_s)
        self._sweeper = Sweeper(self.service, every_s=self._settings.sweep_s)
        self.address = ""

    async def start(self) -> None:
        security = ServerSecurity.of(self._settings)
        await self.service.open()
        await configured_rows.require_readable(self._rows, self._settings)
        limits = IntakeLimits.of(self._settings.requests_bytes_max)
        self._server = RpcServer(security, limits=limits, shares_port=self._shares_port)
        self._server.add(STORE, store_server.handlers(self.service), ready=self.service.ready)
        port = await self._server.start(self._settings.host, self._settings.port)
        self.address = address(self._settings.host, port)
        self._sweeper.start()
        self._queue_watch.start()

    @property
    def drain_s(self) -> float:
        return self._settings.drain_s

    @property
    def running(self) -> int:
        """The number of calls in progress."""
        return self._server.calls

    async def stop(self) -> None:
        await self._queue_watch.stop()
        await self._sweeper.stop()
        self.service.end_waits()
        await self._server.drain(self._drain_time.left_s(self._settings.drain_s))
        await self.service.close()
