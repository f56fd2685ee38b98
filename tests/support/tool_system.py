"""An edge with a worker and a tool service in one process, over a SQLite file, for tests that kill it.

The model calls the tool that the last message of the user names, as in `buy alice`, and answers when it has a result.
`python -m tests.support.tool_system DATABASE SERVERS_FILE` prints its URL and serves until it is stopped.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from antiphon_core.flow import Flow
from antiphon_translator.engines.base import Deliver
from antiphon_translator.generation import ChatChunk, FinishReason, GenerationRequest, ReportedUsage
from antiphon_translator.parsing.segments import Segment, Text
from tests.support.in_process import running
from tests.support.served_models import model
from tests.support.tool_services import REACHES, tool_service
from tests.support.tool_turns import RoundsEngine, call


class ObedientEngine(RoundsEngine):
    async def generate(self, request: GenerationRequest, deliver: Deliver, flow: Flow) -> None:
        messages = request.prompt.messages  # type: ignore[union-attr]
        said: list[Segment] = [Text("So.")]
        if messages[-1]["role"] == "user" and messages[-1]["content"] != "And?":
            tool, who = messages[-1]["content"].split()
            said = call(f"shop__{tool}", f'{{"who":"{who}"}}')
        deliver((ChatChunk(said, FinishReason.STOP, ReportedUsage(10, 3)),))


async def _serve(database: Path, servers: Path) -> None:
    async with (
        tool_service(REACHES["local"], servers=servers) as tools,
        running((model(), ObedientEngine()), rows=f"sqlite:///{database}", tools=tools, workers=1) as system,
    ):
        print(system.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), Path(sys.argv[2])))
