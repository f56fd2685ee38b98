"""A TCP load balancer before the edges, like a Kubernetes Service: each connection goes to the next ready address."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.support.ports import HOST

Address = tuple[str, int]


class Balancer:
    """A balancer that skips addresses without a listener. Connections keep their address when `addresses` change."""

    def __init__(self) -> None:
        self.addresses: list[Address] = []
        self.chosen: list[Address] = []
        """The address of each connection."""
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
