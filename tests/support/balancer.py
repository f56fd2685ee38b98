"""The Service in front of the edges: passes connections on, each to the next address that is ready."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.support.ports import HOST

Address = tuple[str, int]


class Balancer:
    """Passes over an address where nobody listens. Connections stay where they are when `addresses` change."""

    def __init__(self) -> None:
        self.addresses: list[Address] = []
        self.chosen: list[Address] = []
        """Where each connection went."""
        self._turn = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0, backlog=1024)
        self.url = f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(len(self.addresses)):
            self._turn += 1
            address = self.addresses[self._turn % len(self.addresses)]
            with suppress(OSError):
                onward_reader, onward_writer = await asyncio.open_connection(*address)
                self.chosen.append(address)
                await asyncio.gather(_pass_on(reader, onward_writer), _pass_on(onward_reader, writer))
                return
        writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    writer.close()
