"""A relay process between clients and a server, which a test can suspend (SIGSTOP) instead of the server.

python -m tests.support.relay HOST:PORT      # prints the address that it listens on
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.support.children import start_child


@dataclass(frozen=True, slots=True)
class Relay:
    """A running relay and its address."""

    endpoint: str
    process: subprocess.Popen[bytes]


@contextmanager
def relay(endpoint: str) -> Iterator[Relay]:
    """Runs a relay to that endpoint."""
    process = start_child([sys.executable, "-m", "tests.support.relay", endpoint], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield Relay(process.stdout.readline().decode().strip(), process)
    finally:
        process.kill()
        process.communicate()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _serve(endpoint: str) -> None:
    host, port = endpoint.rsplit(":", 1)

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = await asyncio.open_connection(host, int(port))
        await asyncio.gather(_pump(reader, behind[1]), _pump(behind[0], writer))

    server = await asyncio.start_server(pass_on, "127.0.0.1")
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
