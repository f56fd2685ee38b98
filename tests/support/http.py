"""A thin HTTP client for tests: requests in one line, answers read to their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import aiohttp

from antiphon_core import events
from antiphon_core.jsons import Object, dumps, loads
from tests.support.waiting import PAUSE_S, WAIT_MAX_S


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return loads(self.body)

    @property
    def error(self) -> Object:
        error: Object = self.json["error"]
        return error

    @property
    def events(self) -> list[Object]:
        return events.decode(self.body)


@dataclass(frozen=True)
class Http:
    session: aiohttp.ClientSession
    url: str

    async def ask(
        self, method: str, path: str, body: Object | bytes | BinaryIO | None = None, **options: Any
    ) -> Answer:
        data = dumps(body) if isinstance(body, dict) else body
        async with self.session.request(method, self.url + path, data=data, **options) as answer:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(status=answer.status, headers=headers, body=await answer.read())

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", path)

    async def post(self, path: str, body: Object | bytes | BinaryIO) -> Answer:
        return await self.ask("POST", path, body)

    async def create(self, **members: Any) -> Answer:
        return await self.post("/v1/responses", members)

    async def ended(self, response_id: str) -> Object:
        """Waits until a response has ended, and returns it."""
        async with asyncio.timeout(WAIT_MAX_S):
            while (shown := await self.get(f"/v1/responses/{response_id}")).status != 200 or (
                shown.json["status"] in ("queued", "in_progress")
            ):
                await asyncio.sleep(PAUSE_S)
        response: Object = shown.json
        return response

    @asynccontextmanager
    async def stream(self, **members: Any) -> AsyncIterator[AsyncIterator[Object]]:
        """Yields the events of a streamed response as they arrive. Closing the generator closes the connection."""
        body = dumps(members | {"stream": True})
        async with self.session.post(self.url + "/v1/responses", data=body) as answer:
            yield _events(answer)
            answer.close()


class RetryingHttp(Http):
    """Retries like SDKs when an edge answers that its store is not available: on a busy machine the store may not
    answer for a second."""

    async def ask(self, method: str, path: str, *args: Any, **options: Any) -> Answer:
        async with asyncio.timeout(WAIT_MAX_S):
            while is_too_busy(answer := await super().ask(method, path, *args, **options)):
                await asyncio.sleep(0.1)
        return answer


def is_too_busy(answer: Answer) -> bool:
    return answer.status == 503 and answer.json.get("error", {}).get("code") == "store_unavailable"


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[Object]:
    pending = b""
    async for chunk in answer.content.iter_any():
        pending += chunk
        whole, separator, pending = pending.rpartition(b"\n\n")
        for event in events.decode(whole + separator):
            yield event
