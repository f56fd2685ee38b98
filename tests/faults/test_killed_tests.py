"""A process that runs tests is killed, as by a timeout: the servers that it started end with it, and no sooner."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

GONE_S = 20.0

TESTS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from tests.support.postgres_server import postgres_server
from tests.support.redis_servers import redis_server
from tests.support.system import Command

def serve():
    command = Command("serve", "--target=store", "--store-port=0", "--store-url=memory://")
    command.wait_for("^store +")  # the last line that it prints, so no output lacks a reader
    return command.process

with ExitStack() as stack:
    with ThreadPoolExecutor(1) as pool:
        server = pool.submit(lambda: {server}).result()
    print(server.pid, flush=True)
    sys.stdin.read()
"""

SERVERS = {
    "redis": "stack.enter_context(redis_server())",
    "postgres": "stack.enter_context(postgres_server())",
    "antiphon": "serve()",
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL's user can enter, for files that a killed process leaves."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS.keys())
def test_servers_end_when_their_test_process_is_killed(server: str, folder: Path) -> None:
    command = [sys.executable, "-c", TESTS.format(server=server)]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as tests:
        assert tests.stdout is not None
        pid = int(tests.stdout.readline())
        assert runs(pid)  # although the thread that started the server has ended
        tests.kill()
    deadline = time.monotonic() + GONE_S
    while runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def runs(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
