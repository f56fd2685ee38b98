"""A whole scripted system in its own process, over HTTP and gRPC, as the target of malformed requests.

`python -m tests.support.malformed.system` prints its two addresses and serves until it is killed. Tests examine the
memory and the log of that process.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from antiphon.event_loop import run
from antiphon.logs import LogSettings, configure
from antiphon_core.rpc.methods import STORE, TRANSLATOR
from antiphon_core.rpc.server import RpcServer
from antiphon_store.backends.registry import row_backend
from antiphon_store.server import handlers as store_handlers
from antiphon_store.service import StoreService
from antiphon_translator.server import handlers as translator_handlers
from tests.clients.http_fuzz import known_ids
from tests.support.children import start_child
from tests.support.in_process import running
from tests.support.scripted_system import scripted_models

_FAULT = re.compile(r'"level":"(ERROR|CRITICAL)"|Traceback|Logging error|never (retrieved|awaited)')
READ_TIMEOUT_S = 2.0
"""The read timeout, short because many clients send half a request."""


@dataclass(frozen=True)
class MalformedTarget:
    """A running system. `ids` are the existing ids in its store."""

    process: subprocess.Popen[bytes]
    url: str
    rpc: str
    log: Path
    ids: dict[str, list[str]]

    def rss_bytes(self) -> int:
        """Returns the present memory of the process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def faults(self) -> list[str]:
        """Returns the lines of its log that report a fault of the server."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in lines if _FAULT.search(line)]


@contextmanager
def malformed_target(folder: Path) -> Iterator[MalformedTarget]:
    """Runs a system with its database and its log in a folder."""
    log = folder / "log"
    command = [sys.executable, "-m", "tests.support.malformed.system", str(folder / "store.db")]
    with log.open("wb") as file:
        process = start_child(command, stdout=subprocess.PIPE, stderr=file)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text()
        told = json.loads(line)
        yield MalformedTarget(process, told["url"], told["rpc"], log, known_ids(told["url"]))
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


async def _serve(database: str) -> None:
    configure(LogSettings(json=True))
    rpc = RpcServer()
    models, store = scripted_models(keeps=False), StoreService(row_backend(f"sqlite:///{database}"))
    await store.open()
    async with running(*models, store=store, workers=1, read_timeout_s=READ_TIMEOUT_S) as system:
        rpc.add(STORE, store_handlers(store), ready=store.ready)
        rpc.add(TRANSLATOR, translator_handlers(system.translator), ready=system.translator.ready)
        port = await rpc.start("127.0.0.1", 0)
        print(json.dumps({"url": system.url, "rpc": f"127.0.0.1:{port}"}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    run(_serve(sys.argv[1]))
