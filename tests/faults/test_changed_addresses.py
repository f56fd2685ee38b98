"""A machine of the store vanishes without closing its connections, and the name gets another address: turns go on over
the new address, and lose nothing of what was acknowledged."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import aiohttp
import pytest

from tests.support.fixed_text_model import fixed_text_triton
from tests.support.http import Http
from tests.support.replicas import Replicas, fleet
from tests.support.waiting import PAUSE_S, WAIT_MAX_S

SIZES = {"store": 1, "translator": 1, "edge": 1}


class Conversation:
    """A conversation over HTTP, with the ids of the messages whose turns were acknowledged."""

    def __init__(self, http: Http, conversation_id: str) -> None:
        self._http = http
        self._id = conversation_id
        self.acknowledged: list[str] = []

    async def turn(self) -> bool:
        answer = await self._http.create(model="m", input="more", conversation=self._id)
        if answer.status == 200:
            self.acknowledged.append(answer.json["output"][0]["id"])
        return answer.status == 200

    async def turn_with_retries(self) -> None:
        async with asyncio.timeout(WAIT_MAX_S / 2):  # keepalive would take longer
            while not await self.turn():
                await asyncio.sleep(PAUSE_S)

    async def answers(self) -> list[str]:
        page = (await self._http.get(f"/v1/conversations/{self._id}/items?limit=100&order=asc")).json
        return [item["id"] for item in page["data"] if item["role"] == "assistant"]


async def vanish(replicas: Replicas, *, is_withdrawn: bool) -> int:
    """Starts a second store and stops the first one like a machine that is gone. Returns its process id."""
    (successor,) = await replicas.add(store=1)
    hosts = {target: [replicas.pods[name].host for name in replicas.of(target)] for target in SIZES}
    pid = replicas.pods["store-0"].command.process.pid
    os.kill(pid, signal.SIGSTOP)
    replicas.names.set(hosts | {"store": [replicas.pods[successor].host]} if is_withdrawn else hosts)
    return pid


@pytest.mark.parametrize("is_withdrawn", [True, False], ids=["another address", "one more address"])
async def test_turns_go_on_over_another_address_when_a_store_vanishes(tmp_path: Path, is_withdrawn: bool) -> None:
    async with (
        fixed_text_triton(2) as triton,
        fleet(tmp_path, triton.endpoint, sizes=SIZES) as replicas,
        aiohttp.ClientSession() as session,
    ):
        http = Http(session, replicas.edge_urls[0])
        conversation = Conversation(http, (await http.post("/v1/conversations", {})).json["id"])
        assert await conversation.turn()
        pid = await vanish(replicas, is_withdrawn=is_withdrawn)
        try:
            await conversation.turn_with_retries()
            for _ in range(4):  # round robin leaves the silent one out
                assert await conversation.turn()
        finally:
            os.kill(pid, signal.SIGCONT)
        await conversation.turn_with_retries()
        assert await conversation.answers() == conversation.acknowledged
