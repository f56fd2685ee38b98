"""Antiphon as a fleet: three edges, two workers and two translators over one store on Redis, each its own process,
behind a balancer that gives every connection to the next edge.

    async with fleet(tmp_path, endpoint) as replicas:
        replicas.kill("worker-0")
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.ports import HOST, free_ports
from tests.support.redis_servers import redis_server
from tests.support.served_models import write_directory
from tests.support.system import Command

EDGES, WORKERS, TRANSLATORS = 3, 2, 2
WORKER_SLOTS = 6


class Balancer:
    """Passes connections on, each to the next address; one where nobody listens is passed over."""

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports
        self.chosen: list[int] = []
        """Which port each connection went to."""
        self._turn = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.url = f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self.ports:
            port = self.ports[self._turn % len(self.ports)]
            self._turn += 1
            with suppress(OSError):
                onward_reader, onward_writer = await asyncio.open_connection(HOST, port)
                self.chosen.append(port)
                await asyncio.gather(_pass_on(reader, onward_writer), _pass_on(onward_reader, writer))
                return
        writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    writer.close()


@dataclass
class Replicas:
    """The running fleet. A process that was killed can be started again: it listens where it did."""

    balancer: Balancer
    launch: dict[str, Callable[[], Command]]
    commands: dict[str, Command] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.balancer.url

    def kill(self, name: str) -> None:
        self.commands[name].kill()

    def dead(self) -> list[str]:
        """The processes that do not run."""
        return [name for name, command in self.commands.items() if command.process.poll() is not None]

    async def start(self, *names: str) -> None:
        for name in names:
            self.commands[name] = self.launch[name]()
        for name in names:
            await asyncio.to_thread(self.commands[name].wait_for, rf"^{name.partition('-')[0]}\b")

    def stop(self) -> None:
        for command in self.commands.values():
            command.process.terminate()
        for command in self.commands.values():
            command.stop()


@asynccontextmanager
async def fleet(folder: Path, triton_endpoint: str, *edge_options: str) -> AsyncIterator[Replicas]:
    """The fleet, serving a model `m` of that Triton, ready to answer."""
    with ExitStack() as below:
        redis = below.enter_context(redis_server())
        profiles = folder / "profiles"
        profiles.mkdir()
        directory = write_directory(folder / "model")
        (profiles / "m.toml").write_text(
            f'name = "m"\ndirectory = "{directory}"\nendpoint = "{triton_endpoint}"\nengine = "triton_tokens"\n'
        )
        store, *others = free_ports(1 + TRANSLATORS + EDGES)
        translators, edges = others[:TRANSLATORS], others[TRANSLATORS:]
        where = [
            f"--edge-store={HOST}:{store}",
            "--edge-translator=ipv4:" + ",".join(f"{HOST}:{port}" for port in translators),
            "--edge-drain-s=1",
            "--worker-drain-s=1",
        ]

        def serving(target: str, *options: str) -> Callable[[], Command]:
            return lambda: Command("serve", f"--target={target}", *options)

        launch = {"store": serving("store", f"--store-port={store}", f"--store-url={redis.url}")}
        for number, port in enumerate(translators):
            options = (f"--translator-port={port}", f"--translator-profiles={profiles}")
            launch[f"translator-{number}"] = serving("translator", *options)
        for number, port in enumerate(edges):
            launch[f"edge-{number}"] = serving("edge", f"--edge-port={port}", *where, *edge_options)
        for number in range(WORKERS):
            launch[f"worker-{number}"] = serving("worker", f"--worker-slots={WORKER_SLOTS}", *where)
        replicas = Replicas(Balancer(edges), launch)
        below.callback(replicas.stop)
        await replicas.start(*launch)
        await replicas.balancer.start()
        try:
            yield replicas
        finally:
            await replicas.balancer.stop()
