"""Certificates and authorities are replaced on disk while edge, translator and store run, each in its own process:
running streams continue, new connections use the new files, and unusable files change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from tests.support.certificates import Certificate, authority, signed_by
from tests.support.fixed_text_model import FixedTextTriton, fixed_text, fixed_text_triton
from tests.support.http import Http
from tests.support.served_models import write_profile
from tests.support.system import Processes
from tests.support.waiting import PAUSE_S, WAIT_MAX_S, until

WORDS = 12
SERVICES = ("store", "translator")


class CertificateFiles:
    """The files that the settings of all processes name: one certificate, as server and as client, and authorities."""

    def __init__(self, folder: Path) -> None:
        self.cert, self.key, self.authorities = (folder / name for name in ("tls.crt", "tls.key", "ca.crt"))

    def put(self, own: Certificate, *trusted: Certificate) -> None:
        self.cert.write_bytes(own.cert.read_bytes())
        self.key.write_bytes(own.key.read_bytes())
        self.authorities.write_bytes(b"".join(each.cert.read_bytes() for each in trusted))

    def of_server(self, target: str) -> list[str]:
        return self._options(f"--{target}-tls", "client-ca")

    def of_client(self, peer: str) -> list[str]:
        return self._options(f"--edge-{peer}-tls", "ca")

    def _options(self, prefix: str, trusted: str) -> list[str]:
        files = {"cert": self.cert, "key": self.key, trusted: self.authorities}
        return [f"{prefix}-{name}-file={path}" for name, path in files.items()]


@dataclass
class System:
    http: Http
    triton: FixedTextTriton
    files: CertificateFiles
    processes: Processes

    async def restart_services(self) -> None:
        """Breaks all connections of the edge. The new processes read the files when they start."""
        for target in SERVICES:
            self.processes.commands[target].kill()
        await asyncio.to_thread(self.processes.start, *SERVICES)

    async def answer(self) -> str:
        """The text of a turn that is stored."""
        answer = await self.http.create(model="m", input="hello")
        assert answer.status == 200, answer.json
        return str(answer.json["output"][0]["content"][0]["text"])

    async def has_unusable(self, setting: str) -> bool:
        async with self.http.session.get(self.processes.metrics_url("edge")) as answer:
            return f'antiphon_secrets_unusable{{setting="{setting}"}} 1' in await answer.text()

    async def call_store_until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Makes calls, during which files are looked at."""
        async with asyncio.timeout(WAIT_MAX_S):
            while not await holds():
                assert (await self.http.post("/v1/conversations", {})).status == 200
                await asyncio.sleep(PAUSE_S)

    async def has_new_files(self) -> bool:
        return "was read again" in "".join(self.processes.commands["edge"].lines)


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with AsyncExitStack() as life:
        triton = await life.enter_async_context(fixed_text_triton(WORDS))
        files = CertificateFiles(tmp_path)
        ca = authority(tmp_path, "first-ca")
        files.put(signed_by(ca, tmp_path, "first"), ca)
        options = {target: files.of_server(target) for target in SERVICES}
        options["store"].append(f"--store-url=sqlite:///{tmp_path / 'store.db'}")
        options["edge"] = [option for target in SERVICES for option in files.of_client(target)]
        processes = Processes(write_profile(tmp_path, triton.endpoint), options)
        life.callback(processes.stop)
        await asyncio.to_thread(processes.start)
        session = await life.enter_async_context(aiohttp.ClientSession())
        yield System(Http(session, processes.url), triton, files, processes)


async def test_streams_outlive_a_rotation_and_new_connections_use_the_new_files(system: System, tmp_path: Path) -> None:
    expired, ca = authority(tmp_path, "expired-ca", lifetime=timedelta(hours=-1)), authority(tmp_path, "new-ca")
    rotated, stranger = signed_by(ca, tmp_path, "rotated"), signed_by(ca, tmp_path, "stranger")
    system.triton.hold(at=WORDS // 2)
    running = asyncio.create_task(system.answer())
    await until(lambda: system.triton.running == 1, "a running generation")
    system.files.put(rotated, expired, ca)
    await system.call_store_until(system.has_new_files)
    system.triton.go_on()
    assert await running == fixed_text(WORDS)

    await system.restart_services()
    assert await system.answer() == fixed_text(WORDS)

    system.files.key.write_bytes(stranger.key.read_bytes())
    unusable = partial(system.has_unusable, "store_tls_ca_file")
    await system.call_store_until(unusable)
    assert await system.answer() == fixed_text(WORDS)
    system.files.put(rotated, ca)

    async def usable() -> bool:
        return not await unusable()

    await system.call_store_until(usable)
