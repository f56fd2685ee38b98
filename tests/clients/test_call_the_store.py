"""Runs docs/howto/call-the-store.md block by block, each section in a folder outside the repository, with the packages
that `make dist` builds and those of the registries."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from clients.package import make_tarball, make_wheel
from tests.support.certificates import authority, signed_by
from tests.support.debian import found_or_installed
from tests.support.howto import NODE_TOOLS, Block, BlockRunner, blocks
from tests.support.volume import volume

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
BLOCKS = list(blocks(ROOT / "docs/howto/call-the-store.md"))
SIZE_MAX = 15_000_000  # of everything that the Python client installs, without grpcio
RACE = "SESSION_LOCKED, again in 0.5 s"
GO_PACKAGES = (
    "golang-go", "protoc-gen-go", "protoc-gen-go-grpc", "golang-google-grpc-dev", "golang-google-protobuf-dev",
    "golang-google-genproto-dev",
    "golang-github-golang-protobuf-1-5-dev",  # not 1.3, which cannot read the code that protoc-gen-go writes
)  # fmt: skip
GO_SOURCES = Path("/usr/share/gocode")


def of(section: str) -> list[Block]:
    return [block for block in BLOCKS if block.section == section]


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockRunner]:
    """The runner of the document's first blocks, which start the store."""
    folder = tmp_path_factory.mktemp("store")
    first = BlockRunner(folder, shared=folder)
    try:
        first.run_all(of(""))
        yield first
    finally:
        first.close()


@pytest.fixture
def runner(tmp_path: Path, starter: BlockRunner) -> Iterator[BlockRunner]:
    made = BlockRunner(tmp_path, shared=starter.shared, ports=dict(starter.ports))
    try:
        yield made
    finally:
        made.close()


def make_venv(runner: BlockRunner) -> None:
    """Makes a virtual environment and the wheel. pip installs the versions of this environment."""
    make_wheel(runner.folder)
    venv = runner.shared / "venv"
    if not venv.exists():
        # uv takes pip from its cache, where `python -m venv` would install and compile it.
        subprocess.run([UV, "venv", "--quiet", f"--python={sys.executable}", venv], check=True)
        subprocess.run([UV, "pip", "install", "--quiet", f"--python={venv}", "pip"], check=True)
    runner.tools.append(venv / "bin")
    pins = runner.folder / "pins.txt"
    pins.write_text("".join(f"{name}=={version(name)}\n" for name in ("grpcio", "protobuf")))
    quiet = {"PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    runner.environ = {"PIP_CONSTRAINT": str(pins), "PIP_NO_COMPILE": "1", **quiet}


def try_python(runner: BlockRunner) -> None:
    make_venv(runner)
    printed = runner.run_all(of("Python")).splitlines()
    assert printed == ["in the chain: 2", RACE, "children of the root: 2", "['Hello.']"]
    sizes = installed_sizes(runner)
    assert set(sizes) == {"antiphon-store-client", "grpcio", "protobuf", "typing_extensions"}
    assert sum(size for name, size in sizes.items() if name != "grpcio") < SIZE_MAX


def installed_sizes(runner: BlockRunner) -> dict[str, int]:
    """The bytes of each distribution in a virtual environment, besides the installer."""
    program = (
        "import json; from importlib.metadata import distributions as found\n"
        "print(json.dumps({each.metadata['Name']: sum(file.size or 0 for file in each.files) for each in found()}))"
    )
    sizes: dict[str, int] = json.loads(runner.run(Block("", "python", program)))
    return {name: size for name, size in sizes.items() if name != "pip"}


def try_typescript(runner: BlockRunner) -> None:
    make_tarball(runner.folder)
    (runner.folder / "package.json").write_text('{"private": true, "type": "module"}')
    runner.environ = {"npm_config_audit": "false", "npm_config_fund": "false", "npm_config_loglevel": "error"}
    printed = runner.run_all(of("TypeScript")).splitlines()
    assert printed[-3:] == ["in the chain: 2", RACE, "children of the root: 2"]


def try_go(runner: BlockRunner) -> None:
    found_or_installed(find_go, *GO_PACKAGES)
    module = runner.folder / "src/example.com/notes"
    shutil.copytree(ROOT / "protos/antiphon/store/v1", module / "protos/antiphon/store/v1")
    shutil.copy(ROOT / "clients/go/buf.gen.yaml", module)
    runner.environ = {"GO111MODULE": "off", "GOPATH": f"{runner.folder}:{GO_SOURCES}", "GOFLAGS": ""}
    runner.tools.append(NODE_TOOLS)
    runner.folder = module
    assert runner.run_all(of("Go")).splitlines() == ["in the chain: 2", RACE, "children of the root: 2"]


def find_go() -> Path | None:
    """Debian's Go packages, where all of them are installed."""
    programs = all(map(shutil.which, ("go", "protoc-gen-go", "protoc-gen-go-grpc")))
    sources = ("grpc", "protobuf/proto", "genproto/googleapis/rpc/errdetails")
    has_runtime = (GO_SOURCES / "src/github.com/golang/protobuf/proto/wire.go").is_file()
    has_sources = all((GO_SOURCES / "src/google.golang.org" / source).is_dir() for source in sources)
    return GO_SOURCES if programs and has_sources and has_runtime else None


def try_security(runner: BlockRunner) -> None:
    make_venv(runner)
    runner.run(of("Python")[0])
    signer = authority(runner.folder, "ca")
    for name in ("store", "billing"):
        signed_by(signer, runner.folder, name)
    fence, denied = runner.run_all(of("With a token, with TLS")).splitlines()
    assert fence == "fence: 0"
    assert denied.startswith("PERMISSION_DENIED: ")


def try_any_language(runner: BlockRunner) -> None:
    runner.tools.append(NODE_TOOLS)
    printed = runner.run_all(of("Any language"))
    assert "antiphon.store.v1.Trees/Fork" in printed
    assert '"holder": "worker-1"' in printed or '"holder":"worker-1"' in printed


TRIALS: dict[str, Callable[[BlockRunner], None]] = {
    "Python": try_python,
    "TypeScript": try_typescript,
    "Go": try_go,
    "With a token, with TLS": try_security,
    "Any language": try_any_language,
}
# Debian's Go packages take 100 MB and half a minute to install and compile: only `make clients` and `make nightly` test
# them.
HEAVY = {"Go"}


@pytest.mark.parametrize("section", [section for section in TRIALS if section not in volume(HEAVY, set())])
def test_every_block_of_a_section_runs_outside_the_repository(section: str, runner: BlockRunner) -> None:
    TRIALS[section](runner)


def test_every_section_of_the_document_is_tested() -> None:
    assert {block.section for block in BLOCKS} == {"", *TRIALS}
