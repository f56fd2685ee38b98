"""Real MCP servers on loopback, unmodified and pinned: of the Python SDKs 2.3 and 1.30, and `server-everything` of npm.

Each has an environment of its own, built once into the user's cache folder.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.children import start_child
from tests.support.pinned_environments import environment, node_environment
from tests.support.ports import free_ports
from tests.support.waiting import WAIT_MAX_S

HERE = Path(__file__).parent


@dataclass(frozen=True)
class RealServer:
    """A running server. `effects` is the file to which its tool `bump` adds a line for each call."""

    url: str
    effects: Path
    release: Path | None = None

    def calls(self) -> list[str]:
        """The calls that had an effect: of `bump`, their ids."""
        return self.effects.read_text("utf-8").splitlines() if self.effects.exists() else []


SERVERS: dict[str, tuple[str, Sequence[str]]] = {
    "2.3 with events": ("current", ("events",)),
    "2.3 with JSON": ("current", ("json",)),
    "1.30 with sessions": ("legacy", ("events", "sessions")),
    "1.30 stateless": ("legacy", ("json", "stateless")),
}
"""Servers with the same tools: program, and its arguments (mode, and of the legacy one its sessions)."""


@asynccontextmanager
async def python_server(name: str, folder: Path) -> AsyncIterator[RealServer]:
    """Runs one of SERVERS. `folder` gets its log and its effects."""
    program, (mode, *rest) = SERVERS[name]
    python = environment(f"mcp-{program}", HERE / program / "requirements.txt") / "bin/python"
    (port,) = free_ports(1)
    effects = folder / f"effects-{port}"
    command = [str(python), str(HERE / f"programs/{program}.py"), str(port), mode, str(effects), *rest]
    async with _running(command, port, folder):
        yield RealServer(f"http://127.0.0.1:{port}/mcp", effects)


@asynccontextmanager
async def holding_server(folder: Path) -> AsyncIterator[RealServer]:
    """Runs a server whose tools `buy` and `look` add a line to the effects, and answer when `release` exists."""
    python = environment("mcp-current", HERE / "current" / "requirements.txt") / "bin/python"
    (port,) = free_ports(1)
    server = RealServer(f"http://127.0.0.1:{port}/mcp", folder / "effects", folder / "release")
    program = HERE / "programs/holding.py"
    command = [str(python), str(program), str(port), str(server.effects), str(server.release)]
    async with _running(command, port, folder):
        yield server


@asynccontextmanager
async def everything_server(folder: Path) -> AsyncIterator[RealServer]:
    """Runs `server-everything`, which has sessions."""
    packages = node_environment("mcp-everything", HERE / "everything")
    (port,) = free_ports(1)
    program = packages / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    command = ["env", f"PORT={port}", "node", str(program), "streamableHttp"]
    async with _running(command, port, folder):
        yield RealServer(f"http://127.0.0.1:{port}/mcp", folder / "none")


@asynccontextmanager
async def _running(command: Sequence[str], port: int, folder: Path) -> AsyncIterator[None]:
    """Runs a command until the end of the context. RuntimeError: it ended, or its port was not open in time."""
    log = folder / f"server-{port}.log"
    with log.open("w") as file:
        process = start_child(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        async with asyncio.timeout(WAIT_MAX_S):
            while not await _is_open(port):
                if process.poll() is not None:
                    raise RuntimeError(f"the server ended:\n{log.read_text('utf-8')}")
                await asyncio.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


async def _is_open(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
