"""A call of an MCP tool: CPU of our client beside the client of the SDK, against the same servers on this machine.

python -m benchmarks.mcp_bench
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
from pathlib import Path

from antiphon_tools.mcp.client import Sending
from tests.support.mcp_clients import mcp_client
from tests.support.mcp_servers import HERE, SERVERS, python_server
from tests.support.pinned_environments import environment

CALLS = 300
_SDK = """
import asyncio, json, sys, time
from mcp.client import Client

async def main(url, calls):
    async with Client(url) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        began = time.process_time()
        for _ in range(calls):
            await client.call_tool("add", {"a": 1, "b": 2})
        print(json.dumps((time.process_time() - began) / calls * 1000))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


async def ours_ms(url: str) -> float:
    """CPU of one call by our client, in milliseconds."""
    async with mcp_client(url) as client:
        await client.call_tool("add", {"a": 1, "b": 2}, {}, call_id="warm", sending=Sending())
        began_s = time.process_time()
        for number in range(CALLS):
            await client.call_tool("add", {"a": 1, "b": 2}, {}, call_id=f"c{number}", sending=Sending())
        return (time.process_time() - began_s) / CALLS * 1_000


def sdk_ms(url: str) -> float:
    """CPU of one call by the SDK's client 2.3, in milliseconds."""
    python = environment("mcp-current", HERE / "current/requirements.txt") / "bin/python"
    done = subprocess.run([python, "-c", _SDK, url, str(CALLS)], check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout))


async def main() -> None:
    print(f"{'server':20} {'ours':>9} {'SDK 2.3':>9} {'ratio':>6}")
    for name in SERVERS:
        with tempfile.TemporaryDirectory() as folder:
            async with python_server(name, Path(folder)) as server:
                ours = await ours_ms(server.url)
                sdk = await asyncio.to_thread(sdk_ms, server.url)
        print(f"{name:20} {ours:6.2f} ms {sdk:6.2f} ms {sdk / ours:6.1f}")


if __name__ == "__main__":
    asyncio.run(main())
