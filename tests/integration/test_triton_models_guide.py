"""The commands of docs/howto/triton-token-models.md, as they are written, up to a streaming answer. A real Triton on
llama.cpp stands in the place of NVIDIA's containers, and free ports in the place of those in the guide."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from antiphon import cli
from antiphon_core.jsons import Object, dumps, loads
from antiphon_local_triton.model_directory import CHATML_TEMPLATE, build_model_directory
from antiphon_local_triton.server_venv import read_layout
from tests.support.system import up
from tests.support.triton import server_venv, triton_repository

GUIDE = Path(__file__).parents[2] / "docs/howto/triton-token-models.md"
NAME, MODEL = "qwen3", "/models/qwen3"
NOT_RUN = "Not run by the tests"
_CODE = re.compile(r"(?:^(?: {4}| {10})\S[^\n]*\n)+", re.MULTILINE)


def paragraphs_with_commands() -> Iterator[tuple[str, str]]:
    """The commands of the guide, each with the text before it."""
    text = GUIDE.read_text("utf-8")
    end = 0
    for block in _CODE.finditer(text):
        before, end = text[end : block.start()].rpartition("\n\n")[0] or text[end : block.start()], block.end()
        joined = re.sub(r"\\\n\s*", " ", block[0])
        yield from ((before, line.strip()) for line in joined.splitlines())


def command(beginning: str) -> list[str]:
    """The words of the guide's first command that begins so."""
    return shlex.split(next(line for _, line in paragraphs_with_commands() if line.startswith(beginning)))


def test_each_command_is_run_by_a_test_or_marked() -> None:
    run = ("antiphon triton-models write", "antiphon triton-models check", "antiphon up", "curl")
    others = [(before, line) for before, line in paragraphs_with_commands() if not line.startswith(run)]
    assert [line.split()[0] for _, line in others] == ["docker", "docker"]
    assert all(NOT_RUN in before for before, _ in others)


async def test_commands_lead_to_a_streaming_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    gguf = read_layout(server_venv()).packaged_gguf
    folder = build_model_directory(gguf, tmp_path / NAME, chat_template=CHATML_TEMPLATE.read_text("utf-8"))
    writing = command("antiphon triton-models write")
    places = {MODEL: str(gguf), "tensorrt_llm": "llama_cpp"}
    assert cli.main([places.get(word, word) for word in writing[1:]]) == 0
    async with triton_repository(tmp_path / "repository", NAME) as triton:
        places = {MODEL: str(folder), "localhost:8001": triton.grpc_address}
        checking = [places.get(word, word) for word in command("antiphon triton-models check")[1:]]
        capsys.readouterr()
        status = await asyncio.to_thread(cli.main, checking)
        shown = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
        assert status == 0, shown
        _assert_all_is_well(shown)
        serving = [places.get(word, word) for word in command("antiphon up")[2:]]
        await asyncio.to_thread(_ask, serving, tmp_path / "data")


def _assert_all_is_well(shown: Mapping[str, str]) -> None:
    """Requires the finding of each check."""
    assert shown["model"].strip() == "ready"
    assert "8 ids, which the tokenizer reads as ' Madrid" in shown["ids"]
    assert int(shown["cached tokens"].split()[0]) > 100
    assert shown["salts"].strip().startswith("two salts share nothing; under one salt ")
    assert re.fullmatch(r"[\d.]+ ms in the queue, [\d.]+ ms to read the prompt", shown["times"].strip())
    assert shown["finish reason"].strip() == "reported: length"
    assert re.fullmatch(r"cancelled after \d+ ids, and answers again", shown["cancellation"].strip())


def _ask(serving: list[str], data: Path) -> None:
    """Runs the guide's `antiphon up`, and then its request."""
    with up(data, *serving) as system:
        asking = [word.replace("http://localhost:8000", system.url) for word in command("curl")]
        answer = subprocess.run(["curl", "--silent", *asking[1:]], check=True, capture_output=True, text=True)
        whole, timing = _ask_for_a_whole_answer(system.url, json.loads(asking[-1]))
    events = [json.loads(line[6:]) for line in answer.stdout.splitlines() if line.startswith("data: {")]
    assert sum(event["type"] == "response.output_text.delta" for event in events) > 1
    assert events[-1]["type"] == "response.completed"
    assert "Paris" in events[-1]["response"]["output"][0]["content"][0]["text"]
    assert whole["usage"]["input_tokens_details"]["cached_tokens"] > 0, "of the same prompt before"
    assert {"engine-queue", "prefill"} < {phase.partition(";")[0] for phase in timing.split(", ")}


def _ask_for_a_whole_answer(url: str, body: Object) -> tuple[Object, str]:
    """The answer to a request without its `stream`, and the header `Server-Timing`."""
    asked = dumps({name: value for name, value in body.items() if name != "stream"})
    request = urllib.request.Request(f"{url}/v1/responses", asked, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return loads(answer.read()), str(answer.headers["Server-Timing"])
