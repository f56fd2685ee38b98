"""Antiphon as a fleet: edges, workers and translators over one store on Redis, each in its own process with its own
address, like pods.

    async with fleet(tmp_path, endpoint) as replicas:
        replicas.kill("worker-0")
        await replicas.start("worker-0")
        await replicas.roll()

Stores and translators are found by name, as with headless Services. A balancer gives every connection to the next edge,
like a Service. Both use only ready processes that were not told to stop.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from antiphon_edge.turns.turn_timing import DEFAULT_TIMING, JOB_LEASE_MS
from tests.support.balancer import Balancer
from tests.support.ports import free_ports
from tests.support.redis_servers import redis_server
from tests.support.served_models import write_profile
from tests.support.service_names import ServiceNames
from tests.support.system import Command
from tests.support.waiting import WAIT_MAX_S

SIZES = {"store": 1, "translator": 2, "edge": 3, "worker": 2}
"""The default number of processes of each target, in starting order."""
WORKER_SLOTS = 6
LEASED_S = JOB_LEASE_MS / 1000 - DEFAULT_TIMING.cancel_pace.every_s - 1.0
"""The longest outage in which no worker loses the lease of a job: the lease, less the time since its last renewal, and
less a second by which a busy machine may delay the next renewal."""

Launch = Callable[[str, str], Command]
"""Starts a process of a target that listens on an address."""


@dataclass
class Pod:
    """One process and its address. A killed process can be restarted there."""

    target: str
    host: str
    command: Command


@dataclass
class Replicas:
    """The running fleet: its pods by name, `edge-0` and so on."""

    balancer: Balancer
    names: ServiceNames
    ports: dict[str, int]
    launch: Launch
    pods: dict[str, Pod] = field(default_factory=dict)
    _numbers: dict[str, Iterator[int]] = field(default_factory=lambda: {target: itertools.count() for target in SIZES})
    _hosts: Iterator[str] = field(default_factory=lambda: (f"127.77.0.{number}" for number in itertools.count(1)))

    @property
    def url(self) -> str:
        return self.balancer.url

    @property
    def edge_urls(self) -> list[str]:
        return [f"http://{host}:{port}" for host, port in self.balancer.addresses]

    def of(self, target: str) -> list[str]:
        return [name for name, pod in self.pods.items() if pod.target == target]

    def logs(self, *targets: str) -> dict[str, str]:
        """Returns the last lines of the processes of these targets, for the message of a failing test."""
        pods = {name: pod for name, pod in self.pods.items() if pod.target in targets}
        return {name: "".join(pod.command.lines[-50:]) for name, pod in pods.items()}

    def kill(self, name: str) -> None:
        self.pods[name].command.kill()

    def dead(self) -> list[str]:
        """Returns the names of the processes that do not run."""
        return [name for name, pod in self.pods.items() if pod.command.process.poll() is not None]

    async def start(self, *names: str) -> None:
        """Restarts killed or stopped processes at their addresses."""
        for pod in (self.pods[name] for name in names):
            pod.command = self.launch(pod.target, pod.host)
        await self._serve(*names)

    async def add(self, **sizes: int) -> list[str]:
        """Starts additional processes of each target. Returns their names when they are ready."""
        names = []
        for target, size in sizes.items():
            for number in itertools.islice(self._numbers[target], size):
                host = next(self._hosts)
                self.pods[f"{target}-{number}"] = Pod(target, host, self.launch(target, host))
                names.append(f"{target}-{number}")
        await self._serve(*names)
        return names

    async def retire(self, name: str) -> None:
        """Removes a process: withdraws its address, sends SIGTERM, and waits for the end of its running work."""
        pod = self.pods.pop(name)
        self._publish()
        status = await asyncio.to_thread(pod.command.stop)
        assert status == 0, "".join(pod.command.lines)

    async def restart(self, name: str) -> None:
        """Replaces the only process of a target: the process ends before its successor starts."""
        pod = self.pods[name]
        await self.retire(name)
        self.pods[name] = pod
        await self.start(name)

    async def roll(self) -> None:
        """Replaces all processes like a rolling update: successors are ready before the first process is stopped, and
        processes stop one after the other."""
        old = list(self.pods)
        await self.add(**{target: len(self.of(target)) for target in SIZES})
        for name in old:
            await self.retire(name)

    def stop(self) -> None:
        for pod in self.pods.values():
            pod.command.process.terminate()
        for pod in self.pods.values():
            pod.command.stop()

    async def _serve(self, *names: str) -> None:
        for name in names:
            pod = self.pods[name]
            await asyncio.to_thread(pod.command.wait_for, rf"^{pod.target}\b")
        self._publish()

    def _publish(self) -> None:
        """Publishes the running processes to the names and the balancer."""
        gone = self.dead()
        serving = {name: pod for name, pod in self.pods.items() if name not in gone}
        hosts = {target: [pod.host for pod in serving.values() if pod.target == target] for target in SIZES}
        self.names.set(hosts)
        self.balancer.addresses = [(host, self.ports["edge"]) for host in hosts["edge"]]


@asynccontextmanager
async def fleet(
    folder: Path,
    triton_endpoint: str,
    *edge_options: str,
    store_url: str | None = None,
    worker_options: Sequence[str] = (),
    sizes: Mapping[str, int] = MappingProxyType(SIZES),
) -> AsyncIterator[Replicas]:
    """Runs a fleet that serves a model `m` of that Triton, ready to answer. Its store is on its own Redis, unless
    `store_url` is given."""
    with ExitStack() as below:
        store_url = store_url or below.enter_context(redis_server()).url
        names = ServiceNames(folder)
        ports = dict(zip(SIZES, free_ports(len(SIZES)), strict=True))
        where = {
            target: (
                f"--{target}-store=dns:///store:{ports['store']}",
                f"--{target}-translator=dns:///translator:{ports['translator']}",
                f"--{target}-restart-wait-s={WAIT_MAX_S}",
            )
            for target in ("edge", "worker")
        }
        options = {
            "store": (f"--store-url={store_url}",),
            "translator": (f"--translator-profiles={write_profile(folder, triton_endpoint)}",),
            "edge": (*where["edge"], *edge_options),
            "worker": (f"--worker-slots={WORKER_SLOTS}", *where["worker"], *worker_options),
        }

        def launch(target: str, host: str) -> Command:
            listening = () if target == "worker" else (f"--{target}-host={host}", f"--{target}-port={ports[target]}")
            arguments = "serve", f"--target={target}", *listening, *options[target]
            return Command(*arguments, prefix=names.inside, environ=names.environ)

        replicas = Replicas(Balancer(), names, ports, launch)
        below.callback(replicas.stop)
        await replicas.add(**sizes)
        await replicas.balancer.start()
        try:
            yield replicas
        finally:
            await replicas.balancer.stop()
