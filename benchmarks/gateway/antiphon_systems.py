"""Starts Antiphon as its users do: in one process, or split in three, with SQLite unless another store is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from urllib.parse import urlsplit

from benchmarks.gateway.engines import Engines
from benchmarks.gateway.flame_graphs import FlameGraphs
from benchmarks.gateway.subjects import Column, Route, Subject
from tests.support.certificates import Certificate, authority, signed_by
from tests.support.ports import HOST
from tests.support.system import Command

_TRITON_MODELS = {
    Route.IDS: "full_speed",
    Route.PACED_IDS: "paced",
    Route.IDS_EACH_80_MS: "each_80_ms",
    Route.IDS_EACH_320_MS: "each_320_ms",
    Route.BATCHED_IDS: "batched",
}
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
            "--tools-port=0",
            f"--store-url={store or _sqlite(folder)}",
            f"--translator-profiles={self.profiles(folder, routes)}",
            *options,
        )
        return self._subject(Column.ONE, command, {"all": command})

    def split(self, *, with_worker: bool = False, with_tls: bool = False) -> Subject:
        """Starts store, translator and edge in a process each, and a worker on request. With TLS both sides of each
        connection between them show a certificate."""
        folder = self._new_folder("split")
        profiles = self.profiles(folder, tuple(Route))
        tls = _Certificates.made_in(folder) if with_tls else None
        store = self._serve("store", "--store-port=0", f"--store-url={_sqlite(folder)}", *_server("store", tls))
        translator = self._serve(
            "translator", "--translator-port=0", f"--translator-profiles={profiles}", *_server("translator", tls)
        )
        edge = self._serve(
            "edge", "--edge-port=0", "--edge-turns-max=0", *_addresses("edge", store, translator), *_client("edge", tls)
        )
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


@dataclass(frozen=True, slots=True)
class _Certificates:
    """The certificates of one system: an authority, one that all servers use, and one that all clients use."""

    authority: Certificate
    server: Certificate
    client: Certificate

    @classmethod
    def made_in(cls, folder: Path) -> _Certificates:
        signer = authority(folder, "authority")
        return cls(signer, signed_by(signer, folder, "server"), signed_by(signer, folder, "client"))


def _server(target: str, tls: _Certificates | None) -> Sequence[str]:
    """The options with which a server uses TLS, and wants a certificate of its callers."""
    if tls is None:
        return ()
    return (
        f"--{target}-tls-cert-file={tls.server.cert}",
        f"--{target}-tls-key-file={tls.server.key}",
        f"--{target}-tls-client-ca-file={tls.authority.cert}",
    )


def _client(target: str, tls: _Certificates | None) -> Sequence[str]:
    """The options with which an edge or a worker uses TLS to its store and its translator."""
    if tls is None:
        return ()
    return tuple(
        f"--{target}-{server}-tls-{option}={path}"
        for server in ("store", "translator")
        for option, path in (
            ("ca-file", tls.authority.cert),
            ("cert-file", tls.client.cert),
            ("key-file", tls.client.key),
        )
    )


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
