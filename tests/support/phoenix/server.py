"""Arize Phoenix, a trace server from PyPI with OTLP receivers, a database and an API, as a process on loopback.

with phoenix(folder, {}) as server:  # returns at once
    await server.ready(session)
"""

from __future__ import annotations

import asyncio
import base64
import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.children import start_child
from tests.support.pinned_environments import environment
from tests.support.ports import HOST, free_ports
from tests.support.system import START_TIMEOUT_S, STOP_TIMEOUT_S
from tests.support.waiting import PAUSE_S, WAIT_MAX_S

HERE = Path(__file__).parent
_PAGES = ("spans", "spans/otlpv1", "traces", "sessions")
_UNUSED = {
    "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
    "PHOENIX_ENABLE_MCP_SERVER": "false",
    "PHOENIX_LOG_MIGRATIONS": "false",
}
"""Settings that turn off features with a slow start."""


@dataclass(frozen=True)
class Phoenix:
    """A started server. It receives OTLP over gRPC at `grpc_port`, and over HTTP at `url`, which also serves its
    pages."""

    folder: Path
    url: str
    grpc_port: int
    process: subprocess.Popen[Any]

    async def ready(self, session: aiohttp.ClientSession) -> None:
        """Waits until the server accepts spans. RuntimeError: the server ended, or takes too long."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not await self._is_ready(session):
            if self.process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"Phoenix did not start:\n{(self.folder / 'log').read_text('utf-8')}")
            await asyncio.sleep(PAUSE_S)

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"{self.url}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False

    async def spans(self, session: aiohttp.ClientSession, count: int) -> list[dict[str, Any]]:
        """Returns the spans of the API once there are so many, or after a minute: spans are stored with a delay."""
        deadline_s = time.monotonic() + WAIT_MAX_S
        while len(found := await self._page(session, "spans")) < count and time.monotonic() < deadline_s:
            await asyncio.sleep(PAUSE_S)
        return found

    async def traces(self, session: aiohttp.ClientSession) -> list[dict[str, Any]]:
        return await self._page(session, "traces")

    async def _page(self, session: aiohttp.ClientSession, name: str) -> list[dict[str, Any]]:
        async with session.get(self._address(name)) as answer:
            page: list[dict[str, Any]] = (await answer.json())["data"]
        return page

    async def pages(self, session: aiohttp.ClientSession) -> bytes:
        """Returns the raw answers of the API about traces."""
        answers = [await session.get(self._address(name)) for name in _PAGES]
        assert [answer.status for answer in answers] == [200] * len(_PAGES)
        return b"".join([await answer.read() for answer in answers])

    def _address(self, page: str) -> str:
        return f"{self.url}/v1/projects/default/{page}?limit=1000"

    def exported(self) -> list[bytes]:
        """Returns the received gRPC requests as bytes."""
        lines = (self.folder / "exported").read_bytes().splitlines()
        return [base64.b64decode(line) for line in lines]

    def kept(self) -> bytes:
        """Returns all files of a stopped server, the log included, and the rows of its database."""
        files = [path.read_bytes() for path in sorted(self.folder.rglob("*")) if path.is_file()]
        with closing(sqlite3.connect(f"file:{self.folder}/phoenix.db?mode=ro", uri=True)) as database:
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            rows = [row for (name,) in tables for row in database.execute(f'SELECT * FROM "{name}"')]
        return b"".join([*files, *(repr(row).encode() for row in rows)])


@contextmanager
def phoenix(folder: Path, settings: Mapping[str, str]) -> Iterator[Phoenix]:
    """Starts a server that keeps everything in `folder`; `settings` are environment variables of Phoenix's."""
    python = environment("phoenix", HERE / "requirements.txt") / "bin/python"
    http_port, grpc_port = free_ports(2)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PHOENIX_"))}
    environ |= {**_UNUSED, **settings, "HOME": str(folder), "RECORDED": str(folder / "exported")}
    environ |= {"PHOENIX_WORKING_DIR": str(folder), "PHOENIX_PORT": str(http_port), "PHOENIX_GRPC_PORT": str(grpc_port)}
    folder.mkdir()
    with (folder / "log").open("w") as log:
        command = [str(python), "-I", str(HERE / "recorded.py"), "serve"]
        process = start_child(command, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield Phoenix(folder, f"http://{HOST}:{http_port}", grpc_port, process)
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)
