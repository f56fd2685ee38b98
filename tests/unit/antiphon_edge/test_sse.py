from __future__ import annotations

import asyncio

from antiphon_core.events import KEEP_ALIVE_FRAME
from tests.support.edge import running_edge


async def test_silence_is_filled_with_comments_and_speech_is_not() -> None:
    async with running_edge(keep_alive_s=0.05) as edge:
        edge.translator.hang = True
        request = {"model": "m", "input": "hi", "stream": True}
        async with edge.http.session.post(edge.server.url + "/v1/responses", json=request) as answer:
            heard = b""
            async with asyncio.timeout(5):
                while heard.count(KEEP_ALIVE_FRAME) < 3:
                    heard += await answer.content.readany()
        first = heard.index(KEEP_ALIVE_FRAME)
        assert b"Hello" in heard[:first]
        assert heard[:first].endswith(b"\n\n")


async def test_a_finished_stream_leaves_no_task_behind() -> None:
    async with running_edge(keep_alive_s=0.01) as edge:
        await edge.create(stream=True)
        await asyncio.sleep(0.05)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "sse keep-alive"]
