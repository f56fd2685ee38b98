"""An MCP server of the `mcp` SDK 1.30. Arguments: port, `json` or `events`, file of effects, and `sessions` or
`stateless`."""

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.fastmcp import Context, FastMCP
from mcp.types import ToolAnnotations

port, mode, effects = int(sys.argv[1]), sys.argv[2], sys.argv[3]
server = FastMCP("antiphon-tests", port=port, json_response=mode == "json", stateless_http=sys.argv[4] == "stateless")


def note_effect(call_id: str) -> None:
    with Path(effects).open("a") as file:
        file.write(f"{call_id}\n")
        file.flush()
        os.fsync(file.fileno())


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def bump(ctx: Context) -> str:
    """Adds a line with the call's id to a file."""
    meta = ctx.request_context.meta.model_dump() if ctx.request_context.meta else {}
    note_effect(str(meta.get("io.antiphon/call", "")))
    return "bumped"


@server.tool()
async def count(ctx: Context, steps: int) -> str:
    """Counts, and reports its progress."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        await asyncio.sleep(0.01)
    return f"counted to {steps}"


@server.tool()
async def fail() -> str:
    """Fails."""
    raise ValueError("the tool failed on purpose")


@server.tool()
async def large(size: int) -> str:
    """Returns a text of this size."""
    return "x" * size


server.run("streamable-http")
