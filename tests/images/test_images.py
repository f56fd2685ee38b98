"""Builds and runs the images: small, without a shell, root or a writable file, and one turn through all containers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from packaging.utils import canonicalize_name

from tests.support.checkov import program as checkers_program
from tests.support.container_images import TARGETS, Images, built_images
from tests.support.engine_plays import Ending
from tests.support.fake_chat import MODEL, delta, fake_chat
from tests.support.http import Http
from tests.support.ports import HOST, free_ports
from tests.support.served_models import write_directory
from tests.support.waiting import WAIT_MAX_S

MB = 1_000_000
SMALL_MB = 150
SHELLS = ("sh", "bash", "dash", "busybox", "apt-get", "dpkg", "pip", "pip3")
SERVED = {
    "edge": ["8000/tcp"],
    "worker": [],
    "translator": ["50052/tcp"],
    "store": ["50051/tcp"],
    "tools": ["50053/tcp"],
    "all": ["8000/tcp"],
}


# The first run and each nightly run build every layer of the images, which takes minutes.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def images() -> Iterator[Images]:
    with built_images() as images:
        yield images


def test_images_without_tokenizers_are_small(images: Images) -> None:
    sizes = {target: images.inspect(target)["Size"] / MB for target in TARGETS}
    print("".join(f"\n{target}: {size:.0f} MB" for target, size in sizes.items()))
    assert max(sizes[target] for target in ("edge", "worker", "store", "tools")) <= SMALL_MB


def test_images_share_the_layers_of_common_packages(images: Images) -> None:
    layers = {target: images.inspect(target)["RootFS"]["Layers"] for target in TARGETS}
    base, packages, *_ = layers["edge"]
    assert all(found[:2] == [base, packages] for found in layers.values())
    assert layers["edge"] == layers["worker"]
    assert layers["all"][:3] == layers["translator"][:3]


@pytest.mark.parametrize("target", TARGETS)
def test_image_config_has_user_command_ports_and_labels(images: Images, target: str) -> None:
    config = images.inspect(target)["Config"]
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
    assert config["User"] == "65532:65532"
    assert config["Cmd"] == ["serve", f"--target={target}"]
    assert list(config.get("ExposedPorts", {})) == SERVED[target]
    assert (labels["title"], labels["licenses"]) == ("antiphon", "Apache-2.0")
    assert {"version", "revision", "description", "base.name"} <= labels.keys()


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_has_no_shell_and_no_package_manager(images: Images, target: str) -> None:
    with images.mounted(target) as root:
        programs = {path.name for folder in ("bin", "usr/bin", "sbin", "usr/sbin") for path in root.glob(f"{folder}/*")}
        assert "python3" in programs
        assert not programs.intersection(SHELLS)


@pytest.mark.parametrize("target", TARGETS)
def test_the_sbom_is_valid_spdx_and_lists_the_installed_packages(images: Images, target: str, tmp_path: Path) -> None:
    text = images.read(target, "/opt/antiphon/sbom.spdx.json")
    (tmp_path / "sbom.spdx.json").write_text(text, encoding="utf-8")
    checkers_program("pyspdxtools", "--infile", str(tmp_path / "sbom.spdx.json"))
    locators = {one["externalRefs"][0]["referenceLocator"].partition("@")[0] for one in json.loads(text)["packages"]}
    with images.mounted(target) as root:
        installed = {_locator(one) for one in distributions(path=[str(root / "opt/antiphon")])}
    assert installed == {locator for locator in locators if "pypi" in locator}
    assert {"pkg:pypi/antiphon-server", "pkg:pypi/grpcio", "pkg:deb/debian/libssl3"} <= locators
    assert ("pkg:pypi/tokenizers" in locators) == (target in ("translator", "all"))
    assert ("pkg:pypi/redis" in locators) == (target in ("store", "all"))


def test_a_container_runs_unprivileged_without_writable_folders(images: Images) -> None:
    probe = (
        "import os; print(os.getuid(), [line.split()[1] for line in open('/proc/self/status') if line[:6] == 'CapEff'],"
        " [folder for folder in ('/', '/tmp', '/opt/antiphon', '/var') if os.access(folder, os.W_OK)])"
    )
    assert images.python("all", probe) == "65532 ['0000000000000000'] []\n"
    assert images.output("edge", "version").startswith("antiphon ")


async def test_a_turn_passes_through_all_four_containers(images: Images, tmp_path: Path) -> None:
    async with fake_chat() as chat, _system(images, chat.endpoint, tmp_path) as http:
        chat.script = [delta(content="Hello"), delta(content=" there"), Ending.BY_ITSELF]
        answer = await http.create(model="small", input="Hi")
        queued = await http.create(model="small", input="Hi", background=True)
        ended = await _ended(http, queued.json["id"])
    assert answer.status == 200, answer.body
    assert _text(answer.json) == _text(ended) == "Hello there"


@asynccontextmanager
async def _system(images: Images, engine: str, folder: Path) -> AsyncIterator[Http]:
    """Runs edge, worker, translator and store, each in a container, in front of one engine."""
    write_directory(folder / "model")
    profile = f'name = "small"\ndirectory = "{folder}/model"\nengine = "openai_chat"\nendpoint = "{engine}"\n'
    (folder / "profiles").mkdir()
    (folder / "profiles" / "small.toml").write_text(profile + f'chat_model = "{MODEL}"\n')
    _let_others_read(folder)
    edge, translator, store = free_ports(3)
    peers = {"STORE": f"{HOST}:{store}", "TRANSLATOR": f"{HOST}:{translator}"}
    of_worker, of_edge = (
        {f"ANTIPHON_{target}_{peer}": address for peer, address in peers.items()} for target in ("WORKER", "EDGE")
    )
    served = {"ANTIPHON_TRANSLATOR_PORT": str(translator), "ANTIPHON_TRANSLATOR_PROFILES": f"{folder}/profiles"}
    with ExitStack() as running:
        running.enter_context(images.running("store", {"ANTIPHON_STORE_PORT": str(store)}))
        running.enter_context(images.running("translator", served, [folder]))
        running.enter_context(images.running("worker", of_worker))
        running.enter_context(images.running("edge", of_edge | {"ANTIPHON_EDGE_PORT": str(edge)}))
        async with aiohttp.ClientSession() as session:
            http = Http(session, f"http://{HOST}:{edge}")
            await _ready(http)
            yield http


def _locator(one: Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(one.metadata['Name'])}"


def _let_others_read(folder: Path) -> None:
    """Makes files readable for the container's user, who is not their owner."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


async def _ready(http: Http) -> None:
    async with asyncio.timeout(WAIT_MAX_S):
        while True:
            try:
                if (await http.get("/v1/health/ready")).status == 200:
                    return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.1)


async def _ended(http: Http, response_id: str) -> dict[str, Any]:
    async with asyncio.timeout(WAIT_MAX_S):
        while True:
            found: dict[str, Any] = (await http.get(f"/v1/responses/{response_id}")).json
            if found["status"] not in ("queued", "in_progress"):
                return found
            await asyncio.sleep(0.1)


def _text(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", []))
