"""Other Responses servers before the fake chat engine: SMG, or any server that you have started."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.gateway.chat_answers import MODEL
from benchmarks.gateway.engines import Engines
from benchmarks.gateway.http_client import connect
from benchmarks.gateway.requests import turn
from benchmarks.gateway.subjects import Column, Route, Subject
from tests.support.children import start_child
from tests.support.ports import HOST, free_ports

START_TIMEOUT_S = 60.0
_LOG_SHOWN = 1_000  # characters


def running_peer(url: str, pid: int | None, model: str) -> Subject:
    """Waits for a server that is already started. Without its process id its processor time is unknown."""
    parts = urlsplit(url)
    if parts.hostname is None:
        raise SystemExit(f"--peer {url}: give a URL such as http://127.0.0.1:9000/v1/responses")
    path = parts.path if parts.path.strip("/") else "/v1/responses"
    pids = {} if pid is None else {"peer": pid}
    subject = Subject(Column.PEER, parts.hostname, parts.port or 80, pids, model=model, path=path)
    asyncio.run(_answers(subject))
    return subject


@contextmanager
def smg(program: Path, engines: Engines, folder: Path) -> Iterator[Subject]:
    """Starts SMG with its history in memory, and waits until it answers. SystemExit: it ended, and its last lines."""
    port, metrics_port = free_ports(2)
    where = f"launch --host {HOST} --port {port} --prometheus-host {HOST} --prometheus-port {metrics_port}"
    upstream = f"--backend openai --worker-urls http://{HOST}:{engines.chat_port}"
    options = f"{where} {upstream} --history-backend memory --log-level warn".split()
    with (folder / "smg.log").open("w") as log:
        process = start_child([str(program), *options], stdout=log, stderr=log, cwd=folder)
        try:
            subject = Subject(Column.PEER, HOST, port, {"smg": process.pid}, model=MODEL)
            asyncio.run(_answers(subject, process))
            yield subject
        except ChildProcessError as error:
            raise SystemExit(f"{program} ended:\n{Path(log.name).read_text('utf-8')[-_LOG_SHOWN:]}") from error
        finally:
            process.terminate()
            process.wait()


async def _answers(subject: Subject, process: subprocess.Popen[bytes] | None = None) -> None:
    """Returns when a turn succeeds. TimeoutError: no turn succeeded in time. ChildProcessError: the process ended."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process is not None and process.poll() is not None:
            raise ChildProcessError
        try:
            connection = await connect(subject.host, subject.port, b"delta")
        except OSError:
            await asyncio.sleep(0.1)
            continue
        reply = await connection.ask(turn(subject, Route.CHAT, 1))
        connection.transport.close()
        if reply.status == 200:
            return
        await asyncio.sleep(0.1)
    raise TimeoutError(f"the peer on port {subject.port} did not answer")
