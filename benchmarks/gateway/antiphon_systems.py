"""Starts Antiphon as its users do: in one process, or split in three, with SQLite unless another store is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlsplit

from benchmarks.gateway.engines import Engines
from benchmarks.gateway.flame_graphs import FlameGraphs
from benchmarks.gateway.subjects import Column, Route, Subject
from tests.support.ports import HOST
from tests.support.system import Command

_TRITON_MODELS = {Route.IDS: "full_speed", Route.PACED_IDS: "paced", Route.BATCHED_IDS: "batched"}
_QUIET = ("--log-level=WARNING",)


class Systems:
    """Starts systems that all use the same engines, and stops them at the end."""

    def __init__(self, folder: Path, engines: Engines, graphs: FlameGraphs | None, life: ExitStack) -> None:
        self._folder = folder
        self._engines = engines
        self._graphs = graphs
        self._life = life

    def one(self, *options: str, store: str | None = None, routes: Sequence[Route] = tuple(Route)) -> Subject:
        """Starts all targets in one process, with a model for each route."""
        folder = self._new_folder("one")
        command = self._serve(
            "all",
            "--edge-port=0",
            "--store-port=0",
            "--translator-port=0",
            f"--store-url={store or _sqlite(folder)}",
            f"--translator-profiles={self.profiles(folder, routes)}",
            *options,
        )
        return self._subject(Column.ONE, command, {"all": command})

    def split(self, *, with_worker: bool = False) -> Subject:
        """Starts store, translator and edge in a process each, and a worker on request."""
        folder = self._new_folder("split")
        profiles = self.profiles(folder, tuple(Route))
        store = self._serve("store", "--store-port=0", f"--store-url={_sqlite(folder)}")
        translator = self._serve("translator", "--translator-port=0", f"--translator-profiles={profiles}")
        edge = self._serve("edge", "--edge-port=0", *_addresses("edge", store, translator))
        parts = {"edge": edge, "translator": translator, "store": store}
        if with_worker:
            parts["worker"] = self._serve("worker", *_addresses("worker", store, translator))
            parts["worker"].wait_for(r"^worker\b")
        return self._subject(Column.SPLIT, edge, parts)

    def profiles(self, folder: Path, routes: Sequence[Route]) -> Path:
        """Writes a folder with a model profile for each route."""
        target = folder / "profiles"
        target.mkdir()
        for route in routes:
            lines = [f'name = "{route}"', f'directory = "{self._engines.model_directory}"']
            if route is Route.CHAT:
                lines += [f'endpoint = "http://{HOST}:{self._engines.chat_port}/v1"', 'engine = "openai_chat"']
            else:
                lines += [f'endpoint = "{HOST}:{self._engines.triton_port}"', 'engine = "triton_tokens"']
                lines += [f'triton_model = "{_TRITON_MODELS[route]}"']
            (target / f"{route}.toml").write_text("\n".join(lines), "utf-8")
        return target

    def _new_folder(self, name: str) -> Path:
        return Path(mkdtemp(prefix=name, dir=self._folder))

    def _serve(self, target: str, *options: str) -> Command:
        command = Command("serve", f"--target={target}", *options, *_QUIET)
        self._life.callback(command.stop)
        return command

    def _subject(self, column: Column, edge: Command, parts: Mapping[str, Command]) -> Subject:
        url = urlsplit(edge.wait_for(r"^edge +(http://\S+)/v1")[1])
        assert url.hostname is not None
        assert url.port is not None
        pids = {name: command.process.pid for name, command in parts.items()}
        if self._graphs is not None:
            self._graphs.record(column, pids, self._life)
        return Subject(column, url.hostname, url.port, pids)


def _addresses(target: str, store: Command, translator: Command) -> Sequence[str]:
    """The options of an edge or a worker that name its store and its translator."""
    store_address = store.wait_for(r"^store +(\S+:\d+)")[1]
    translator_address = translator.wait_for(r"^translator +(\S+:\d+)")[1]
    return (f"--{target}-store={store_address}", f"--{target}-translator={translator_address}")


def _sqlite(folder: Path) -> str:
    return f"sqlite:///{folder / 'store.db'}"


@contextmanager
def systems(folder: Path, engines: Engines, graphs: FlameGraphs | None) -> Iterator[Systems]:
    """A context that stops all processes that were started in it, the last one first."""
    with ExitStack() as life:
        yield Systems(folder, engines, graphs, life)
