"""Antiphon as users run it: real processes, a real Triton, the real small model.

`up` runs the single command. `split` runs three processes over TCP that use the Triton of an `up`. Both are stopped by
process id, and their output is shown if they do not start.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tests.support.children import start_child
from tests.support.ports import HOST, free_ports

START_TIMEOUT_S = 240.0  # the first start on a fresh machine downloads Triton and the model
STOP_TIMEOUT_S = 100.0
_PARTS = ("store", "translator", "edge")
"""The targets that listen."""


class Command:
    """One running `antiphon` command."""

    def __init__(
        self,
        *arguments: str,
        folder: Path | None = None,
        python: Path | str = sys.executable,
        environ: Mapping[str, str] = MappingProxyType({}),
        prefix: Sequence[str] = (),
    ) -> None:
        """Starts the command. `environ` is added to the environment of this process, without variables of Antiphon's
        settings. `prefix` is a command line that becomes this command."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
        environment |= environ
        self.process = start_child(
            [*prefix, str(python), "-m", "antiphon", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=folder,
        )
        self.lines: list[str] = []
        self._printed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Waits for the first printed line that matches. RuntimeError: the command ended, or took too long."""
        deadline = time.monotonic() + START_TIMEOUT_S
        with self._printed:
            while True:
                for line in self.lines:
                    if match := re.search(pattern, line):
                        return match
                ended = self.process.poll() is not None and not self._reader.is_alive()
                if ended or time.monotonic() > deadline:
                    raise RuntimeError(f"no line matches {pattern!r} in:\n" + "".join(self.lines))
                self._printed.wait(0.1)

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Sends SIGTERM and returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError("the command did not stop:\n" + "".join(self.lines)) from None

    @property
    def is_printing(self) -> bool:
        """Returns whether more lines may follow."""
        return self._reader.is_alive()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._printed:
                self.lines.append(line)
                self._printed.notify_all()
        self.process.stdout.close()


@dataclass
class System:
    """A running Antiphon: its address, and its processes by target."""

    url: str
    data: Path
    model: str
    commands: dict[str, Command] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        return self.url + "/v1"

    def triton_pid(self) -> int:
        """The process id of the Triton server that this system's `up` started."""
        parent = self.commands["up"].process.pid
        for listing in Path(f"/proc/{parent}/task").glob("*/children"):
            for pid in map(int, listing.read_text().split()):
                if "tritonserver" in Path(f"/proc/{pid}/cmdline").read_text():
                    return pid
        raise RuntimeError("this system runs no Triton")


@contextmanager
def serve(target: str, *options: str, prefix: Sequence[str] = ()) -> Iterator[tuple[Command, str]]:
    """Runs one target on a free port until it is ready. Yields the command and its address."""
    command = Command("serve", f"--target={target}", f"--{target}-port=0", *options, prefix=prefix)
    try:
        yield command, command.wait_for(rf"^{target} +(?:http://)?([^\s/]+:\d+)")[1]
    finally:
        command.stop()


class Processes:
    """Targets of Antiphon that know each other, each in its own process. Their ports are chosen before they start, so
    that each can be started again."""

    def __init__(
        self,
        profiles: Path,
        options: Mapping[str, Sequence[str]],
        *,
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`options` are further options by target. The store is in memory unless its options say otherwise."""
        self.ports = dict(zip(_PARTS, free_ports(len(_PARTS)), strict=True))
        self.metrics_ports = dict(zip(options, free_ports(len(options)), strict=True))
        self.commands: dict[str, Command] = {}
        self._environ = environ
        known = {
            "store": [f"--store-port={self.ports['store']}", "--store-url=memory://"],
            "translator": [f"--translator-port={self.ports['translator']}", f"--translator-profiles={profiles}"],
            "edge": [f"--edge-port={self.ports['edge']}", *self._peers("edge")],
            "worker": self._peers("worker"),
        }
        self._arguments = {
            target: [f"--metrics-port={port}", *known[target], *options[target]]
            for target, port in self.metrics_ports.items()
        }

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.ports['edge']}"

    def metrics_url(self, target: str) -> str:
        return f"http://{HOST}:{self.metrics_ports[target]}/metrics"

    def start(self, *targets: str) -> None:
        """Starts these targets, or all, and waits until they are ready."""
        started = targets or tuple(self._arguments)
        for target in started:
            self.commands[target] = Command(
                "serve", f"--target={target}", *self._arguments[target], environ=self._environ
            )
        for target in started:
            self.commands[target].wait_for(rf"^{target}\b")

    def stop(self) -> None:
        for command in reversed(self.commands.values()):
            command.stop()

    def _peers(self, target: str) -> list[str]:
        return [f"--{target}-{peer}={HOST}:{self.ports[peer]}" for peer in ("store", "translator")]


@contextmanager
def up(data: Path, *options: str) -> Iterator[System]:
    """Runs `antiphon up` on free ports until it is ready to answer."""
    command = Command("up", "--port", "0", "--data", str(data), *options)
    try:
        command.wait_for(r"^Antiphon is up")
        url = command.wait_for(r"^edge +(http://\S+)/v1")[1]
        model = command.wait_for(r"^model +(\S+)")[1]
        yield System(url=url, data=data, model=model, commands={"up": command})
    finally:
        command.stop()


@contextmanager
def split(data: Path, *, profiles: Path, model: str, options: Sequence[str] = ()) -> Iterator[System]:
    """Runs the three targets as three processes, with the model profiles of a running `up`."""
    data.mkdir(parents=True, exist_ok=True)
    with (
        serve("store", f"--store-url=sqlite:///{data / 'store.db'}", *options) as (store, store_address),
        serve("translator", f"--translator-profiles={profiles}", *options) as (translator, translator_address),
        serve("edge", f"--edge-store={store_address}", f"--edge-translator={translator_address}", *options) as (
            edge,
            edge_address,
        ),
    ):
        commands = {"store": store, "translator": translator, "edge": edge}
        yield System(url=f"http://{edge_address}", data=data, model=model, commands=commands)
