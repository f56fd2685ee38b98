"""Runs the commands of README.md for a chat server behind Antiphon."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.answering_chat import answering_chat
from tests.support.fake_chat import FakeChat
from tests.support.howto import blocks
from tests.support.in_a_thread import in_a_thread
from tests.support.system import Command

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")
BLOCKS = [block.text for block in blocks(ROOT / "README.md")]
(START,) = re.findall(r"^make run .*--openai http://gpu-host:8000/v1.*$", TEXT, re.MULTILINE)
_, STREAM, CONTINUE = (text for text in BLOCKS if text.startswith("curl"))
(SDK,) = (text for text in BLOCKS if "from openai import" in text)
PARIS, ROME = "The capital of France is Paris.", "The capital of Italy is Rome."


@dataclass
class Started:
    """Antiphon before a chat server, and the curl line that it prints."""

    server: FakeChat
    pasted: str

    def run(self, text: str, answer_id: str = "") -> str:
        """Runs a shell command of README.md with the address and model of the printed curl line."""
        return _shell(self.named(text).replace("resp_...", answer_id))

    def named(self, text: str) -> str:
        (url,) = re.findall(r"http://[\d.:]+", self.pasted)
        return text.replace("http://127.0.0.1:8000", url).replace('"smollm2"', f'"{self.server.model}"')


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with in_a_thread(answering_chat()) as server:
        home = {"HOME": str(tmp_path_factory.mktemp("home")), "XDG_DATA_HOME": ""}
        command = Command(*_arguments(START.replace("http://gpu-host:8000/v1", server.endpoint)), environ=home)
        try:
            yield Started(server, command.wait_for(r"^ +(curl .*)$")[1])
        finally:
            command.stop()


def _arguments(line: str) -> list[str]:
    """Returns the arguments that a make line passes to `antiphon`, with a free port. `make --dry-run` installs nothing,
    and variables of the make that runs this test are dropped."""
    make, *words = shlex.split(line, comments=True)
    words += ["--dry-run", "PORT=0"]
    environ = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    shown = subprocess.run([make, *words], cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    (command,) = re.findall(r"^\S*/antiphon (up .*)$", shown.stdout, re.MULTILINE)
    return shlex.split(command)


def _shell(command: str) -> str:
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _text(printed: str) -> str:
    (message,) = json.loads(printed)["output"]
    return str(message["content"][0]["text"])


def test_the_printed_curl_line_returns_an_answer_that_can_be_continued(started: Started) -> None:
    printed = _shell(started.pasted)
    assert _text(printed) == PARIS
    assert _text(started.run(CONTINUE, json.loads(printed)["id"])) == ROME
    assert started.server.requests[-1]["messages"][1] == {"role": "assistant", "content": PARIS}


def test_a_stream_has_a_delta_for_each_word_and_usage(started: Started) -> None:
    printed = started.run(STREAM)
    assert printed.count("event: response.output_text.delta") == len(PARIS.split())
    *_, completed = re.findall(r"^data: (\{.*\})$", printed, re.MULTILINE)
    assert json.loads(completed)["response"]["usage"]["output_tokens"] == len(PARIS.split())


def test_the_program_of_the_sdk_prints_the_answer(started: Started) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    program = [sys.executable, "-c", started.named(SDK)]
    done = subprocess.run(program, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == PARIS
