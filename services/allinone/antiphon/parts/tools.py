"""The tools service as a part of a process: its service and its gRPC server."""

from __future__ import annotations

from antiphon.settings import Settings
from antiphon_core.clock import Clock
from antiphon_core.drain_time import DrainTime
from antiphon_core.rpc.addresses import address
from antiphon_core.rpc.intake import IntakeLimits
from antiphon_core.rpc.methods import TOOLS
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.server import RpcServer
from antiphon_tools import server as tools_server
from antiphon_tools.service import ToolService


class ToolsPart:
    name = "tools"
    work = "call"

    def __init__(
        self, settings: Settings, clock: Clock, *, shares_port: bool = False, drain_time: DrainTime | None = None
    ) -> None:
        """SettingsError: the file of tool servers is unusable."""
        self._shares_port = shares_port
        self._drain_time = drain_time or DrainTime(clock)
        self._settings = settings.tools
        self.service = ToolService(self._settings, clock=clock)
        self.address = ""

    async def start(self) -> None:
        security = ServerSecurity.of(self._settings)
        limits = IntakeLimits.of(self._settings.requests_bytes_max)
        self._server = RpcServer(security, limits=limits, shares_port=self._shares_port)
        self._server.add(TOOLS, tools_server.handlers(self.service), ready=self.service.ready)
        port = await self._server.start(self._settings.host, self._settings.port)
        self.address = address(self._settings.host, port)

    @property
    def drain_s(self) -> float:
        return self._settings.drain_s

    @property
    def running(self) -> int:
        """The number of calls of tools in progress."""
        return self.service.running

    async def stop(self) -> None:
        await self._server.drain(self._drain_time.left_s(self._settings.drain_s))
        await self.service.close()
