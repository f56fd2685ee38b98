from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from antiphon import cli
from antiphon_core import events
from tests.support.served_models import tokenizer, write_directory

TOOLS = [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}]
CALL = [
    "<think>Hm.</think>I lo",
    "ok.<tool_",
    'call>{"name": "get_weather", "argu',
    'ments": {"city": "Rome"}}',
    "</tool_call>",
]


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """A function that runs the command and returns exit status, standard output and standard error."""

    def run(chunks: Any, *flags: str, tools: Any = TOOLS) -> tuple[int, str, str]:
        if tools is not None:
            (tmp_path / "tools.json").write_text(json.dumps(tools))
            flags = (*flags, "--tools", str(tmp_path / "tools.json"))
        given = io.TextIOWrapper(io.BytesIO(json.dumps(chunks).encode()))
        monkeypatch.setattr("sys.stdin", given)
        status = cli.main(["parse", *flags])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_parse_prints_reasoning_message_and_call_items(parse: Any) -> None:
    status, out, _ = parse(CALL, "--family", "hermes")
    reasoning, message, call = json.loads(out)
    assert status == 0
    assert reasoning["content"][0]["text"] == "Hm."
    assert message["content"][0]["text"] == "I look."
    assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Rome"})


def test_parse_with_events_prints_numbered_events(parse: Any) -> None:
    _, out, _ = parse(CALL, "--family", "hermes", "--events")
    log = events.decode(out.encode())
    assert [event["sequence_number"] for event in log] == list(range(len(log)))
    assert (log[0]["type"], log[-1]["type"]) == ("response.created", "response.completed")


def test_prompt_tail_and_finish_reason_set_item_type_and_status(parse: Any) -> None:
    _, out, _ = parse(["Hm"], "--family", "hermes", "--prompt-tail", "<think>\n", "--finish", "length")
    (item,) = json.loads(out)
    assert (item["type"], item["status"]) == ("reasoning", "incomplete")


def test_without_tools_a_call_is_text(parse: Any) -> None:
    _, out, _ = parse(CALL[2:], "--family", "hermes", tools=None)
    assert [item["type"] for item in json.loads(out)] == ["message"]


def test_token_ids_are_decoded_with_the_given_tokenizer(parse: Any, tmp_path: Path) -> None:
    folder = write_directory(tmp_path / "model")
    ids = tokenizer().encode("Hello there.")
    _, out, _ = parse([ids[:1], ids[1:]], "--family", "plain", "--tokenizer", str(folder))
    assert json.loads(out)[0]["content"][0]["text"] == "Hello there."


@pytest.mark.parametrize(
    ("chunks", "flags", "words"),
    [
        (["x"], ["--family", "no_such"], "There is no family 'no_such'"),
        ([[1, 2]], ["--family", "plain"], "Chunk 0 must be a text"),
        ({"a": 1}, ["--family", "plain"], "must be a JSON array"),
        (["x"], ["--family", "plain", "--tool-choice", "{"], "--tool-choice is not JSON"),
        (["x"], ["--family", "plain", "--tool-choice", '"any"'], "'tool_choice' must be one of"),
    ],
)
def test_invalid_input_prints_one_line_and_exits_2(parse: Any, chunks: Any, flags: list[str], words: str) -> None:
    status, out, error = parse(chunks, *flags)
    assert (status, out) == (2, "")
    assert words in error
    assert error.count("\n") == 1
