"""A real PostgreSQL for tests, from Debian's packages, on a free loopback port in a temporary folder.

    backend = PostgresRows(shared_postgres().url)    # one server for the whole run

    with postgres_server() as server:                   # one that a test may break
        server.kill()

Nothing here skips: a missing server is installed if possible, or the run fails with instructions.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql

from tests.support.children import as_user, start_child
from tests.support.debian import found_or_installed
from tests.support.ports import free_ports

PROGRAMS = Path("/usr/lib/postgresql")
PACKAGE = "postgresql"
USER = "postgres"  # initdb and postgres refuse to run as root
START_TIMEOUT_S = 60.0

# fsync stays on: the tests of durability would prove nothing without it.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "logging_collector": "off",
    "fsync": "on",
}


@dataclass(slots=True)
class PostgresServer:
    """One server, which a test may stop, kill and restart. Its data persist."""

    folder: Path
    port: int
    settings: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    inside: Sequence[str] = ()
    """The start of its command line, which can move it into a namespace."""

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(programs() / "postgres"), "-D", str(self.data), "-p", str(self.port), *options]
        with self.log.open("ab") as log:
            whole = [*self.inside, *as_user(owner()), *command]
            self.process = start_child(whole, stdout=log, stderr=log, cwd="/", start_new_session=True)
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Ends all sessions and the server, in order."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Stops the server like `pg_ctl stop -m immediate`: it writes nothing more, and recovers at the next start."""
        self._end(signal.SIGQUIT)

    def kill(self) -> None:
        """Sends SIGKILL to the server and its children, and waits until all have ended: a child that still ends holds
        the shared memory, with which no other server starts."""
        os.kill(self.pid, signal.SIGSTOP)
        _wait_for(self.pid, "TXZ")  # from then on it starts no child
        children = self._pids()[1:]
        self._signal_all(signal.SIGKILL)
        self._end(signal.SIGKILL)
        for child in children:
            _wait_for(child, "XZ")

    def pause(self) -> None:
        """Suspends every process of the server: connections stay open, and nothing is answered."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    def _pids(self) -> list[int]:
        """Returns the process ids, the server first, so that it is stopped before it can start others."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]

    def _signal_all(self, number: signal.Signals) -> None:
        """Signals all processes. Some may have ended already, because they end with the server."""
        for pid in self._pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, how)
            self.process.wait(START_TIMEOUT_S)
            self.process = None

    def _wait_until_it_answers(self) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                assert self.process is not None
                assert self.process.poll() is None, self.log.read_text("utf-8", "replace")[-2000:]
                assert time.monotonic() < deadline_s, self.log.read_text("utf-8", "replace")[-2000:]
                time.sleep(0.05)
            else:
                return


def _wait_for(pid: int, states: str) -> None:
    """Waits until a process has one of these states of `/proc/PID/stat`, or has gone."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    with suppress(FileNotFoundError, ProcessLookupError):
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in states:
            assert time.monotonic() < deadline_s, pid
            time.sleep(0.002)


@contextmanager
def postgres_server(inside: Sequence[str] = (), **settings: str) -> Iterator[PostgresServer]:
    """Runs a server with its own database, and deletes both at the end. `inside` is the start of its command line."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    server = PostgresServer(folder, free_ports(1)[0], SETTINGS | settings, inside=inside)
    try:
        _initialise(server)
        server.start()
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.resume()
            server.crash()
        shutil.rmtree(folder, ignore_errors=True)


@cache
def shared_postgres() -> PostgresServer:
    """Returns the server that all tests of this run share, started at the first call. Each test uses its own tenants or
    its own schema."""
    life = ExitStack()
    atexit.register(life.close)
    return life.enter_context(postgres_server())


def new_schema() -> str:
    """Returns an unused name for a schema: an empty store in a shared server."""
    return f"store_{secrets.token_hex(6)}"


def new_database() -> str:
    """Returns the URL of a new, empty database in the shared server."""
    server, name = shared_postgres(), f"store_{secrets.token_hex(6)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.url.removesuffix("postgres") + name


def programs() -> Path:
    """Returns the folder of the newest server's programs, after installing them if necessary."""
    return found_or_installed(_newest, PACKAGE)


def _newest() -> Path | None:
    found = [path.parent for path in PROGRAMS.glob("*/bin/initdb")]
    return max(found, key=lambda path: int(path.parent.name), default=None)


def _initialise(server: PostgresServer) -> None:
    if (user := owner()) is not None:
        shutil.chown(server.folder, user)
    options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"]
    command = [str(programs() / "initdb"), "-D", str(server.data), *options]
    status = start_child(command, user=owner(), stdout=subprocess.DEVNULL, cwd="/").wait()
    assert status == 0, f"initdb ended with {status}"


def owner() -> str | None:
    """Returns the owner of the server's processes and files: the present user, or USER for root."""
    return USER if os.geteuid() == 0 else None
