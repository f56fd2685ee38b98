"""A small asynchronous client of a Responses server: JSON, and server-sent events."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import aiohttp

from antiphon.talk.errors import ApiError
from antiphon_core.jsons import Object, dumps, loads

BASE_URL = "http://127.0.0.1:8000/v1"
KEY_VARIABLE = "OPENAI_API_KEY"
TIMEOUT_S = 600.0
LINE_BYTES_MAX = 64 * 2**20  # the terminal event of a stream holds the whole response, images included


def declare(parser: argparse.ArgumentParser) -> None:
    """Adds the argument for the server's URL."""
    parser.add_argument("--url", default=BASE_URL, help=f"the server's base URL (default {BASE_URL})")
    parser.epilog = f"If the server requires an API key, set {KEY_VARIABLE}."


class Api:
    """Requests to one server. Every method raises ApiError if the server cannot be reached or answers with an error."""

    def __init__(self, session: aiohttp.ClientSession, base_url: str) -> None:
        self._session = session
        self._base_url = base_url.rstrip("/")

    @classmethod
    @asynccontextmanager
    async def open(cls, base_url: str, environ: Mapping[str, str] = os.environ) -> AsyncIterator[Self]:
        """Opens a client, with the API key of the environment if there is one."""
        key = environ.get(KEY_VARIABLE)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=TIMEOUT_S)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            headers=headers, timeout=timeout, connector=connector, read_bufsize=2**20
        ) as session:
            yield cls(session, base_url)

    async def get(self, path: str, **parameters: str) -> Object:
        async with self._ask("GET", path, params=parameters) as answer:
            return _object(await answer.read())

    async def post(self, path: str, body: Object) -> Object:
        async with self._ask("POST", path, data=_encode(body)) as answer:
            return _object(await answer.read())

    async def models(self) -> list[str]:
        """The names of the server's models. ApiError: it has none."""
        found = [model["id"] for model in (await self.get("/models")).get("data", [])]
        if not found:
            raise ApiError(f"{self._base_url} serves no model.", status=200)
        return found

    async def version(self) -> tuple[str, str]:
        """The server's release and the `Date` header of its answer. Either is empty if the answer lacks it."""
        async with self._ask("GET", "/version") as answer:
            return str(_object(await answer.read()).get("release", "")), answer.headers.get("Date", "")

    async def nodes(self, response_id: str, *, from_root: bool) -> list[Object]:
        """The nodes below a response, or with `from_root` its whole tree; parents come before their children."""
        nodes: list[Object] = []
        more = {"from_root": "true"} if from_root else {}
        while True:
            page = await self.get(f"/responses/{response_id}/tree", **more)
            nodes += page["data"]
            if not page.get("has_more"):
                return nodes
            more["cursor"] = page["next_cursor"]

    async def events(self, body: Object) -> AsyncIterator[Object]:
        """Creates a response and yields its events while they stream. An `error` event is raised as ApiError. Events
        without a type, such as the heartbeats of some servers, are skipped."""
        async with self._ask("POST", "/responses", data=_encode({**body, "stream": True})) as answer:
            async for event in _events(answer.content):
                if event.get("type") == "error":
                    raise _error(event.get("error") or event, answer.status)
                if "type" in event:
                    yield event

    @asynccontextmanager
    async def _ask(self, method: str, path: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Content-Type": "application/json"} if "data" in options else {}
        try:
            async with self._session.request(method, self._base_url + path, headers=headers, **options) as answer:
                if answer.status >= 400:
                    raise _error(_object(await answer.read()).get("error"), answer.status)
                yield answer
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise ApiError(f"{self._base_url} is no URL of a server, such as {BASE_URL}.") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(f"{self._base_url} does not answer: {str(error) or type(error).__name__}.") from error


def _encode(body: Object) -> bytes:
    """The JSON of a body. ApiError: a text in it, such as an argument of a command, is not Unicode."""
    try:
        return dumps(body)
    except TypeError as error:
        raise ApiError(f"The request cannot be sent: {error}.") from error


def failure_of(response: Object) -> str:
    """The message of a failed response."""
    return str((response.get("error") or {}).get("message") or "The response failed without a reason.")


async def _events(stream: aiohttp.StreamReader) -> AsyncIterator[Object]:
    """Yields the events of an SSE stream. Each must have one `data:` line, as in the Responses API."""
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise ApiError("The server sent an event that is larger than any response.")
        for line in lines:
            if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                yield _object(line[5:])


def _object(data: bytes) -> Object:
    try:
        found = loads(data)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def _error(given: Any, status: int) -> ApiError:
    error = given if isinstance(given, dict) else {}
    message = error.get("message") or f"The server answered with status {status}, without a readable error."
    return ApiError(str(message), status, str(error.get("code") or ""))
