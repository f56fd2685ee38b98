"""Code blocks of a document, and runners for them, in folders without access to the repository."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.system import Command

_FORKING = Path(__file__).with_name("forked_programs.py")
NODE_TOOLS = Path(__file__).parents[2] / "node_modules/.bin"

_HEADING_OR_BLOCK = re.compile(
    r"^## (?P<heading>[^\n]*)$|^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_SERVE = "antiphon serve "
_TSC = "tsc --strict --skipLibCheck --target es2022 --module nodenext --lib es2022,dom"


@dataclass(frozen=True)
class Block:
    """A fenced block and its section. The section before the first heading has the name ""."""

    section: str
    language: str
    text: str


def blocks(document: Path) -> Iterator[Block]:
    section = ""
    for match in _HEADING_OR_BLOCK.finditer(document.read_text(encoding="utf-8")):
        if match["language"] is None:
            section = match["heading"]
        else:
            yield Block(section, match["language"], match["text"])


@dataclass
class BlockRunner:
    """Runs blocks in its own folder. `ports` maps the ports of the document to free ports. All runners of a document
    share the folder `shared`. `entry` is the start of a command line that runs others, such as nsenter."""

    folder: Path
    shared: Path
    ports: dict[str, str] = field(default_factory=dict)
    tools: list[Path] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)
    servers: list[Command] = field(default_factory=list)
    entry: Sequence[str] = ()

    def run_all(self, blocks_to_run: list[Block]) -> str:
        """Runs the blocks one after the other, and returns their output. AssertionError: a block failed."""
        return "".join(map(self.run, blocks_to_run))

    def run(self, block: Block) -> str:
        if block.text.startswith(_SERVE):
            return self.serve(block)
        text = block.text
        for port, real in self.ports.items():
            text = text.replace(f":{port}", f":{real}")
        done = subprocess.run(
            [*self.entry, "bash", "-euo", "pipefail", "-c", _RUNNERS[block.language](self.folder, text)],
            cwd=self.folder, env=self._environ(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run_forked(self, blocks_to_run: list[Block]) -> str:
        """Runs blocks of Python, each in a process that already has the modules of the first. Returns their output.
        AssertionError: a block failed."""
        files = [self.folder / f"program{number}.py" for number in range(len(blocks_to_run))]
        for file, block in zip(files, blocks_to_run, strict=True):
            file.write_text(block.text, encoding="utf-8")
        return self.run(Block("", "sh", shlex.join(["python", "-I", str(_FORKING), *(file.name for file in files)])))

    def serve(self, block: Block) -> str:
        """Starts the store of a block, on a free port."""
        words = shlex.split(block.text.removeprefix(_SERVE).replace("\\\n", ""), comments=True)
        (port,) = (word.partition("=")[2] for word in words if word.startswith("--store-port="))
        free = ["--store-port=0" if word.startswith("--store-port=") else word for word in words]
        self.servers.append(Command("serve", *free, folder=self.folder))
        self.ports[port] = self.servers[-1].wait_for(r"^store +\S+:(\d+)")[1]
        return ""

    def close(self) -> None:
        for server in self.servers:
            server.stop()

    def _environ(self) -> dict[str, str]:
        """Returns the environment of the tests without variables that lead to the repository."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        path = ":".join([*map(str, self.tools), environ["PATH"]])
        return environ | self.environ | {"PATH": path}


def _shell(_folder: Path, text: str) -> str:
    return text


def _python(folder: Path, text: str) -> str:
    (folder / "program.py").write_text(text, encoding="utf-8")
    return "python -I program.py"


def _typescript(folder: Path, text: str) -> str:
    (folder / "program.ts").write_text(text, encoding="utf-8")
    return f"{NODE_TOOLS}/{_TSC} program.ts && node program.js"


def _javascript(folder: Path, text: str) -> str:
    (folder / "program.mjs").write_text(text, encoding="utf-8")
    return "node program.mjs"


def _go(folder: Path, text: str) -> str:
    (folder / "main.go").write_text(text, encoding="utf-8")
    return "go build -o program . && ./program"


_RUNNERS: dict[str, Callable[[Path, str], str]] = {
    "sh": _shell, "python": _python, "ts": _typescript, "js": _javascript, "go": _go,
}  # fmt: skip
