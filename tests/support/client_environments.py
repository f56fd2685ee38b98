"""The environments of other people's clients: their packages, and the network namespace in which they run.

A client's folder in tests/clients has its pinned requirements, for pip with hashes, for npm in a package-lock.json.
They are installed once, under build/clients. Servers and clients run in their own network namespace, which has only the
loopback interface: port 8000 of a document is free there, and nothing can reach the internet.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.children import start_child
from tests.support.howto import Block, BlockRunner, blocks
from tests.support.pinned_environments import build, build_node

ROOT = Path(__file__).parents[2]
PINS = ROOT / "tests/clients"
INSTALLED = ROOT / "build/clients"
PORT = "8000"
_PINNED = ("requirements.txt", "package-lock.json")


@dataclass(frozen=True)
class Client:
    """A client and its document, docs/howto/use-with-NAME.md. `make test` tests it if `is_core` is set."""

    name: str
    title: str
    is_core: bool = False

    @property
    def page(self) -> Path:
        return ROOT / f"docs/howto/use-with-{self.name}.md"

    @property
    def pins(self) -> Path:
        """The file with the pinned packages."""
        folder = PINS / self.name.replace("-", "_")
        (found,) = (folder / name for name in _PINNED if (folder / name).exists())
        return found

    @property
    def is_python(self) -> bool:
        return self.pins.suffix == ".txt"


def install(client: Client) -> Path:
    """Installs the client's packages unless they are installed, and returns their folder."""
    pins = client.pins
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()[:12]
    target = INSTALLED / f"{client.name}-{digest}"
    done = target / "installed"
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / f"{client.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            (_install_python if client.is_python else _install_node)(pins, target)
            done.touch()
    return target


def _install_python(pins: Path, target: Path) -> None:
    build(target / "venv", pins)


def _install_node(pins: Path, target: Path) -> None:
    build_node(target, pins.parent)


@dataclass(frozen=True)
class Served:
    """A running server. `entry` is the command that runs others in its network namespace, `log` its access log."""

    entry: Sequence[str]
    log: Path

    def answered(self, request: str) -> int:
        """Returns the number of lines in the access log that begin with this method, path and status."""
        return self.log.read_text("utf-8").count(request)


@contextmanager
def loopback_only(folder: Path) -> Iterator[Served]:
    """Serves the models of client_models.py in a network namespace. RuntimeError: the server did not start."""
    is_root = os.geteuid() == 0
    unshare = ["unshare", "--net", *(() if is_root else ("--map-root-user",))]
    command = [*unshare, sys.executable, "-m", "tests.support.client_models", PORT]
    paths = [str(ROOT), *sys.path]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    log = folder / "access.log"
    with log.open("w") as file:
        server = start_child(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=file, text=True)
    try:
        if not server.stdout or not server.stdout.readline().startswith("http"):
            raise RuntimeError(f"the server ended with status {server.wait()}:\n{log.read_text('utf-8')}")
        user = () if is_root else ("--user", "--preserve-credentials")
        yield Served(["nsenter", "--target", str(server.pid), "--net", *user, "--"], log)
    finally:
        server.terminate()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()


def features(client: Client) -> list[str]:
    """Returns the sections of the client's document that are tested."""
    return list(dict.fromkeys(block.section for block in blocks(client.page) if block.section))


def programs(client: Client, feature: str, model: str) -> tuple[list[Block], str]:
    """Returns the blocks to run for a section, with `model` instead of qwen3, and the documented output. Blocks before
    the first section are the configuration: its shell commands run first, its code is put before the section's code."""
    found = [block for block in blocks(client.page) if block.section in ("", feature)]
    shown = "".join(block.text for block in found if block.language == "text")
    head = [block for block in found if not block.section and block.language not in ("console", "text")]
    setup = [block for block in head if block.language == "sh"]
    run = []
    for block in found:
        if block.section and block.language not in ("console", "text"):
            before = "".join(each.text for each in head if each.language == block.language != "sh")
            run.append(Block(feature, block.language, before + block.text))
    named = [
        Block(block.section, block.language, block.text.replace('"qwen3"', f'"{model}"')) for block in [*setup, *run]
    ]
    return named, shown


def block_runner(client: Client, folder: Path, entry: Sequence[str]) -> BlockRunner:
    """Returns a runner of blocks with the client's packages, in a folder that is also its home."""
    packages = install(client)
    tools = [packages / "venv/bin", packages / "node_modules/.bin"]
    if (packages / "node_modules").exists():
        (folder / "node_modules").symlink_to(packages / "node_modules")
    environ = {"HOME": str(folder), "NO_COLOR": "1"}
    return BlockRunner(folder, shared=folder, tools=tools, environ=environ, entry=entry)
