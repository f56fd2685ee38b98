"""Real Redis servers for tests, from Debian's packages, on free loopback ports in temporary folders.

    redis_rows(shared_redis().url)          # one server for the whole run

    with redis_server() as server:          # one that a test may break
        server.kill()

There are three topologies: one server, a cluster of three masters, and a master with replicas under three sentinels.
Nothing here skips: a missing server is installed if possible, or the run fails with instructions.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import redis

from antiphon_core.clock import Clock
from antiphon_store.backends.redis.addresses import parse_address
from antiphon_store.backends.redis.backend import RedisRows
from antiphon_store.rows.backend import Durability
from tests.support.children import start_child
from tests.support.debian import found_or_installed
from tests.support.ports import HOST, free_ports

PACKAGES = ("redis-server", "redis-sentinel")
SERVICE = "antiphon"
SLOTS = 16384
START_TIMEOUT_S = 60.0
NODE_TIMEOUT_MS = 15_000  # a master without processor time for some seconds must not count as failed

SAFE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
NO_FILES = ("--appendonly", "no", "--save", "")


@dataclass(slots=True)
class RedisServer:
    """One redis-server, which can be killed and restarted."""

    folder: Path
    port: int
    options: Sequence[str] = SAFE
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        """Starts the server. Returns when it answers, with its data loaded."""
        self.folder.mkdir(parents=True, exist_ok=True)
        place = ("--bind", HOST, "--port", str(self.port), "--dir", str(self.folder), "--logfile", "log")
        self.launch([_program("redis-server"), *place, "--daemonize", "no", *self.options])
        wait_until(self._answers, f"redis-server on port {self.port}")

    def launch(self, command: Sequence[str]) -> None:
        self.process = start_child(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """Sends SIGKILL, also to a suspended server."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        with redis.Redis(HOST, self.port, socket_timeout=20, decode_responses=True) as client:
            yield client

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            pytest.fail(f"redis-server ended at once: {(self.folder / 'log').read_text()[-500:]}")
        with suppress(redis.RedisError), self.client() as client:
            return bool(client.ping())
        return False


@dataclass(frozen=True, slots=True)
class RedisCluster:
    """A cluster. `replicas` are those of the masters, in the order of the masters, or empty."""

    masters: Sequence[RedisServer]
    replicas: Sequence[RedisServer] = ()

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"{HOST}:{master.port}" for master in self.masters)


@dataclass(frozen=True, slots=True)
class WatchedRedis:
    """A master, its replicas, and the sentinels that elect a new master."""

    servers: Sequence[RedisServer]
    sentinels: Sequence[RedisServer]

    @property
    def url(self) -> str:
        return "redis+sentinel://" + ",".join(f"{HOST}:{each.port}" for each in self.sentinels) + f"/{SERVICE}"

    def master(self) -> RedisServer:
        """Returns the present master according to the first sentinel."""
        with self.sentinels[0].client() as client:
            address: Any = client.sentinel_get_master_addr_by_name(SERVICE)
        return next(server for server in self.servers if server.port == int(address[1]))


def redis_rows(url: str, *, durability: Durability = Durability.MEMORY, clock: Clock | None = None) -> RedisRows:
    """Returns an unopened backend on these servers, optionally with the test's own clock."""
    scheme, _, rest = url.partition("://")
    return RedisRows(parse_address(scheme, rest), durability=durability, clock=clock)


@cache
def shared_redis() -> RedisServer:
    """Returns the server that all tests of this run share, started at the first call, without files. Each test has its
    own tenant."""
    life = ExitStack()
    atexit.register(life.close)
    return life.enter_context(redis_server(NO_FILES))


@cache
def shared_cluster() -> RedisCluster:
    """Returns the cluster that all tests of this run share, started at the first call."""
    life = ExitStack()
    atexit.register(life.close)
    return life.enter_context(redis_cluster(NO_FILES))


@contextmanager
def redis_server(options: Sequence[str] = SAFE) -> Iterator[RedisServer]:
    """Runs a server, and deletes its data at the end."""
    with ExitStack() as stack:
        server = RedisServer(_folder(stack), free_ports(1)[0], options)
        stack.callback(server.kill)
        server.start()
        yield server


@contextmanager
def redis_cluster(options: Sequence[str] = SAFE, *, with_replicas: bool = False) -> Iterator[RedisCluster]:
    """Runs three masters that share the slots, each with one replica or none."""
    cluster = ("--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS), *options)
    with ExitStack() as stack:
        folder = _folder(stack)
        servers = []
        for port in free_ports(6 if with_replicas else 3, and_above=10_000):
            servers.append(RedisServer(folder / str(port), port, cluster))
            stack.callback(servers[-1].kill)
            servers[-1].start()
        masters, replicas = servers[:3], servers[3:]
        _form_cluster(masters, replicas)
        yield RedisCluster(masters, replicas)


@contextmanager
def watched_redis(replicas: int = 2) -> Iterator[WatchedRedis]:
    """Runs a master with replicas that acknowledge within a second, under three sentinels that act after a second."""
    ports = free_ports(1 + replicas + 3)
    guarded = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "2", "--repl-diskless-sync-delay", "0")
    with ExitStack() as stack:
        folder = _folder(stack)
        servers, sentinels = [], []
        for port in ports[: 1 + replicas]:
            follow = ("--replicaof", HOST, str(ports[0])) if port != ports[0] else ()
            servers.append(RedisServer(folder / str(port), port, (*NO_FILES, *guarded, *follow)))
            stack.callback(servers[-1].kill)
            servers[-1].start()
        for port in ports[1 + replicas :]:
            sentinels.append(_sentinel(folder / f"sentinel-{port}", port, master_port=ports[0]))
            stack.callback(sentinels[-1].kill)
        watched = WatchedRedis(servers, sentinels)
        wait_until(lambda: _is_settled(watched, replicas), "the sentinels")
        yield watched


def start_all(servers: Collection[RedisServer]) -> None:
    """Restarts killed servers, which read their append-only files. Returns when they accept commands: a node of a
    cluster accepts none before it knows the others, and callers would retry until then."""
    for server in servers:
        server.start()
    wait_until(lambda: all(map(_covers_its_slots, servers)), "the servers after their restart")


def wait_until(check: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not check():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not get ready within {START_TIMEOUT_S} s")
        time.sleep(0.05)


def _folder(stack: ExitStack) -> Path:
    """Makes a folder that the stack deletes after its servers have ended."""
    folder = Path(tempfile.mkdtemp(prefix="redis-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _program(name: str) -> str:
    """Returns the path of a server's program, after installing it if necessary."""
    return found_or_installed(partial(shutil.which, name), *PACKAGES)


def _form_cluster(masters: Sequence[RedisServer], replicas: Sequence[RedisServer]) -> None:
    bounds = [SLOTS * number // len(masters) for number in range(len(masters) + 1)]
    for number, master in enumerate(masters):
        with master.client() as client:
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)  # type: ignore[no-untyped-call]
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)  # type: ignore[no-untyped-call]
            for other in masters[:number]:
                client.execute_command("CLUSTER", "MEET", HOST, other.port)  # type: ignore[no-untyped-call]
    for replica in replicas:
        with replica.client() as client:
            client.execute_command("CLUSTER", "MEET", HOST, masters[0].port)  # type: ignore[no-untyped-call]
    servers = [*masters, *replicas]
    wait_until(lambda: all(_is_in_cluster(each, len(servers)) for each in servers), "the cluster")
    for master, replica in zip(masters, replicas, strict=False):
        with master.client() as leading, replica.client() as client:
            name = leading.execute_command("CLUSTER", "MYID")  # type: ignore[no-untyped-call]
            client.execute_command("CLUSTER", "REPLICATE", name)  # type: ignore[no-untyped-call]
    wait_until(lambda: all(map(_follows, replicas)), "the replicas")


def _is_in_cluster(master: RedisServer, size: int) -> bool:
    with master.client() as client:
        answer = client.execute_command("CLUSTER", "INFO")  # type: ignore[no-untyped-call]
    return "cluster_state:ok" in answer and f"cluster_known_nodes:{size}" in answer


def _covers_its_slots(server: RedisServer) -> bool:
    with server.client() as client:
        if not client.info("cluster")["cluster_enabled"]:
            return True
        return "cluster_state:ok" in client.execute_command("CLUSTER", "INFO")  # type: ignore[no-untyped-call]


def _follows(replica: RedisServer) -> bool:
    with replica.client() as client:
        return bool(client.info("replication").get("master_link_status") == "up")


def _sentinel(folder: Path, port: int, *, master_port: int) -> RedisServer:
    folder.mkdir(parents=True)
    configuration = folder / "sentinel.conf"
    configuration.write_text(
        f"port {port}\nbind {HOST}\ndir {folder}\nlogfile log\n"
        f"sentinel monitor {SERVICE} {HOST} {master_port} 2\n"
        f"sentinel down-after-milliseconds {SERVICE} 1000\n"
        f"sentinel failover-timeout {SERVICE} 5000\n"
    )
    sentinel = RedisServer(folder, port)
    sentinel.launch([_program("redis-sentinel"), str(configuration)])
    return sentinel


def _is_settled(watched: WatchedRedis, replicas: int) -> bool:
    """Returns whether every sentinel knows all others and all replicas, and the replicas follow the master."""
    for sentinel in watched.sentinels:
        with suppress(redis.RedisError), sentinel.client() as client:
            state: Any = client.sentinel_master(SERVICE)
            if state["num-other-sentinels"] == len(watched.sentinels) - 1 and state["num-slaves"] == replicas:
                continue
        return False
    with watched.master().client() as client:  # on a busy machine the first master may have been replaced already
        return bool(client.info("replication")["connected_slaves"] == replicas)
