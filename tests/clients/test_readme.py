"""Runs README.md block by block against `antiphon up` with the real model, and starts its services."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest

from antiphon.cli import main
from tests.support.howto import Block, blocks
from tests.support.system import Command, System

ROOT = Path(__file__).parents[2]
BLOCKS = list(blocks(ROOT / "README.md"))
CURLS = [block for block in BLOCKS if block.text.startswith("curl")]
SDK, STORE_CLIENT = (block for block in BLOCKS if block.language == "python")
SERVICES, SEVERAL_PROCESSES = (block for block in BLOCKS if block.text.startswith("antiphon serve"))
MAKE = [block for block in BLOCKS if block.text.startswith("make")]
CHAT = [block for block in BLOCKS if block.text == "antiphon chat\n"]  # docs/howto/command-line.md

ANSWER_ID = re.compile(r'"id": ?"(resp_\w+)"')


@pytest.fixture(scope="module")
def answer_id(up_system: System) -> str:
    """The id that the first command prints."""
    match = ANSWER_ID.search(_run(CURLS[0], up_system, "resp_..."))
    assert match is not None
    return match[1]


def test_every_block_of_the_readme_is_tested() -> None:
    tried = [*CURLS, SDK, STORE_CLIENT, SERVICES, SEVERAL_PROCESSES, *MAKE, *CHAT]
    assert sorted(block.text for block in tried) == sorted(block.text for block in BLOCKS)


def test_curl_commands_print_an_answer_a_stream_and_a_continuation(up_system: System, answer_id: str) -> None:
    _, stream, continued = (_run(block, up_system, answer_id) for block in CURLS)
    assert "event: response.completed" in stream
    assert f'"previous_response_id":"{answer_id}"' in continued.replace(" ", "")


@pytest.mark.parametrize("block", [SDK, STORE_CLIENT], ids=["SDK", "store's client"])
def test_python_programs_of_the_readme_print_output(
    block: Block, up_system: System, answer_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(_here(block.text, up_system, answer_id), "README.md", "exec"), {})
    assert len(capsys.readouterr().out) > 20


def test_separate_services_run_foreground_and_background_responses(up_system: System, services: str) -> None:
    client = openai.OpenAI(base_url=services, api_key="none", timeout=120)
    request: dict[str, Any] = {"model": up_system.model, "input": "Say hello.", "max_output_tokens": 8}
    assert client.responses.create(**request).output_text
    queued = client.responses.create(**request, background=True)
    events = client.responses.retrieve(queued.id, stream=True)
    assert [event.type for event in events][-1] == "response.incomplete"  # eight tokens are fewer than the answer


@pytest.mark.parametrize("block", MAKE, ids=lambda block: block.text.splitlines()[0])
def test_options_of_make_targets_exist_in_antiphon_up(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["up", "--help"])
    known = capsys.readouterr().out
    for line in block.text.splitlines():
        for argument in shlex.split(line, comments=True)[2:]:
            assert set(re.findall(r"--[\w-]+", argument)) <= set(re.findall(r"--[\w-]+", known))


@pytest.fixture(params=[False, True], ids=["a process each", "four processes"])
def services(request: pytest.FixtureRequest, up_system: System, tmp_path: Path) -> Iterator[str]:
    """The address of the edge while all commands of the block run, on free ports."""
    (tmp_path / "profiles").symlink_to(up_system.data / "profiles")
    lines = SERVICES.text.splitlines()
    if request.param:  # edge and translator are in one command
        lines = [lines[0], *SEVERAL_PROCESSES.text.splitlines(), lines[3]]
    addresses: dict[str, str] = {}
    with ExitStack() as running:
        for line in lines:
            (target,) = re.findall(r"--target=(\S+)", line)
            command = Command("serve", *_on_free_ports(line, target, addresses), folder=tmp_path)
            running.callback(command.stop)
            for name in target.split(","):
                addresses[name] = command.wait_for(rf"^{name} +(\S+)")[1]
        yield addresses["edge"]


def _on_free_ports(line: str, target: str, addresses: dict[str, str]) -> list[str]:
    """Returns the arguments of `antiphon serve` in a line, with the addresses of the services that run already."""
    for port, name in (("50051", "store"), ("50052", "translator")):
        line = line.replace(f"127.0.0.1:{port}", addresses.get(name, ""))
    listening = [f"--{name}-port=0" for name in target.split(",") if name != "worker"]
    return [*shlex.split(line)[2:], *listening]


def _run(block: Block, system: System, answer_id: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", _here(block.text, system, answer_id)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def _here(text: str, system: System, answer_id: str) -> str:
    """Replaces the addresses, the model and the response id of a README block by those of this test."""
    store = system.commands["up"].wait_for(r"^store +(\S+:\d+)")[1]
    named = text.replace("http://127.0.0.1:8000", system.url).replace("127.0.0.1:50051", store)
    return named.replace('"smollm2"', f'"{system.model}"').replace("resp_...", answer_id)
