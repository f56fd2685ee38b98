"""An MCP server of the `mcp` SDK 2.3 whose tools have their effect, and answer when the file RELEASE exists. Arguments:
port, file of effects, file RELEASE."""

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

port, effects, release = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
server = MCPServer("antiphon-tests")


def note_effect(tool: str, who: str) -> None:
    with effects.open("a") as file:
        file.write(f"{tool} {who}\n")
        file.flush()
        os.fsync(file.fileno())


def is_released() -> bool:
    return release.exists()


async def have_effect(tool: str, who: str) -> str:
    note_effect(tool, who)
    while not is_released():
        await asyncio.sleep(0.05)
    return "Done."


@server.tool()
async def buy(who: str) -> str:
    """Buys."""
    return await have_effect("buy", who)


@server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
async def look(who: str) -> str:
    """Looks."""
    return await have_effect("look", who)


server.run("streamable-http", port=port)
