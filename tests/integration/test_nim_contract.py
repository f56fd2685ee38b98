"""The edge in the pod of a NIMService: it starts with the Operator's variables, answers the Operator's probes and
requests without a key, and writes its log as JSON lines. The manifest is the overlay's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from antiphon_core.jsons import Object, loads
from tests.support import nim_operator
from tests.support.api_keys import KeyFiles, bearer
from tests.support.fake_chat import MODEL, fake_chat
from tests.support.in_a_thread import in_a_thread
from tests.support.ports import HOST, free_ports
from tests.support.served_models import write_directory
from tests.support.system import Command
from tests.support.waiting import WAIT_MAX_S

MODELS = ("alpha", "beta")
TOKEN = "0123456789abcdef" * 4


@dataclass(frozen=True)
class Pod:
    """The edge of a NIMService, and the services behind it."""

    url: str
    key: str
    start_edge: Callable[[int], Command]
    """Starts an edge like this one at another port."""


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    with in_a_thread(fake_chat()) as chat, _running(tmp_path_factory.mktemp("pod"), chat.endpoint) as pod:
        yield pod


async def test_an_edge_in_a_nim_service_satisfies_the_operator(pod: Pod) -> None:
    service = nim_operator.edge_service()
    async with aiohttp.ClientSession(pod.url) as session:
        for path in nim_operator.probe_paths(service):
            async with asyncio.timeout(WAIT_MAX_S):
                while (await _get(session, path))[0] != 200:
                    await asyncio.sleep(0.1)
        status, models = await _get(session, "/v1/models")
        assert status == 200
        assert nim_operator.model_name(models) in MODELS
        assert {one["id"] for one in models["data"]} == {one["root"] for one in models["data"]} == set(MODELS)
        _, metadata = await _get(session, "/v1/metadata")
        assert [one["shortName"] for one in metadata["modelInfo"]] == list(MODELS)
        _, version = await _get(session, "/v1/version")
        assert set(version) == {"release", "api"}
        _, ready = await _get(session, "/v1/health/ready")
        assert (ready["object"], ready["status"]) == ("health.response", "ready")


async def test_metrics_are_open_and_responses_are_not(pod: Pod) -> None:
    async with aiohttp.ClientSession(pod.url) as session:
        async with session.get(nim_operator.METRICS_PATH) as answer:
            assert (answer.status, answer.content_type) == (200, "text/plain")
        asked = {"model": "alpha", "input": "Hi"}
        async with session.post("/v1/responses", json=asked) as answer:
            assert answer.status == 401
        async with session.get("/v1/conversations/conv_none", headers=bearer(pod.key)) as answer:
            assert answer.status == 404


async def test_every_line_of_the_log_is_a_json_object(pod: Pod) -> None:
    """Covers the log from the start of an edge to its end."""
    (port,) = free_ports(1)
    edge = pod.start_edge(port)
    try:
        await asyncio.to_thread(edge.wait_for, r"^edge\b")
        async with aiohttp.ClientSession(f"http://{HOST}:{port}") as session:
            await _get(session, "/v1/models/none")
    finally:
        await asyncio.to_thread(edge.stop)
    logged = [line for line in edge.lines if not line.startswith(("edge ", "console "))]  # the banner
    assert logged
    assert all(isinstance(loads(line.encode()), dict) for line in logged), logged


async def _get(session: aiohttp.ClientSession, path: str) -> tuple[int, Object]:
    """Sends a request of the Operator, which has no key."""
    async with session.get(path) as answer:
        return answer.status, loads(await answer.read())


@contextmanager
def _running(folder: Path, chat: str) -> Iterator[Pod]:
    """The services behind the edge, and the edge as the overlay describes it, with local addresses and files."""
    edge, store, translator = free_ports(3)
    files = KeyFiles(folder)
    key = files.make("acme")
    for name, content in (
        ("token", TOKEN),
        ("sealing", f"one {TOKEN}\n"),
        ("credentials", f"edge {TOKEN} * gateway\n"),
    ):
        (folder / name).write_text(content)
    tokens = str(folder / "credentials")
    with ExitStack() as stack:
        for target, options in {
            "store": [f"--store-port={store}", "--store-url=memory://", f"--store-token-file={tokens}"],
            "translator": [
                f"--translator-port={translator}",
                f"--translator-profiles={_profiles(folder, chat)}",
                f"--translator-token-file={tokens}",
            ],
        }.items():
            command = Command("serve", f"--target={target}", *options)
            stack.callback(command.stop)
            command.wait_for(rf"^{target}\b")
        peers = {"ANTIPHON_EDGE_STORE": f"{HOST}:{store}", "ANTIPHON_EDGE_TRANSLATOR": f"{HOST}:{translator}"}

        def start_edge(port: int) -> Command:
            return Command("serve", "--target=edge", environ=_environ(folder, port) | peers)

        command = start_edge(edge)
        stack.callback(command.stop)
        command.wait_for(r"^edge\b")
        yield Pod(f"http://{HOST}:{edge}", key, start_edge)


def _environ(folder: Path, port: int) -> dict[str, str]:
    """The environment of the edge in its pod, with this folder and this port."""
    service = nim_operator.edge_service()
    service["spec"]["expose"]["service"]["port"] = port
    environ = {
        name: value.replace(nim_operator.STORE, str(folder)) for name, value in nim_operator.environ(service).items()
    }
    return environ | {"ANTIPHON_EDGE_DRAIN_S": "1"}


def _profiles(folder: Path, chat: str) -> Path:
    profiles = folder / "profiles"
    profiles.mkdir()
    directory = write_directory(folder / "model")
    for name in MODELS:
        text = f'name = "{name}"\ndirectory = "{directory}"\nengine = "openai_chat"\nendpoint = "{chat}"\n'
        (profiles / f"{name}.toml").write_text(text + f'chat_model = "{MODEL}"\n')
    return profiles
