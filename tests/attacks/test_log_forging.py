"""Attack 10: names that split log lines, and errors of engines that repeat the prompt. A caller can write no line, no
colour and no content into the log."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from antiphon import logs
from antiphon.logs import MESSAGE_CHARS_MAX, LogSettings
from antiphon_translator.engines import chat_errors, triton_errors
from tests.support.edge import running_edge

FORGED = "2026-11-23 02:00:00,000 INFO    antiphon_edge.access: POST /v1/admin 200 1ms"
EVIL = [
    f"m\n{FORGED}",
    f"m\r\n{FORGED}",
    f"m\u2028{FORGED}",
    f"m\x1b[2K\x1b[1A{FORGED}",
    f"m\x85{FORGED}",
    "m\u202e" + FORGED[::-1],
    "m" + "x" * 100_000,
]
SECRET = "my bank account is 1234567890"


@pytest.fixture(params=[False, True], ids=["text", "JSON"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], bytes]]:
    """The bytes that the configured log has written so far."""
    path = tmp_path / "log"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    logs.configure(LogSettings(json=request.param), fd=fd)
    yield path.read_bytes
    root.handlers[:] = before
    root.setLevel(level)
    os.close(fd)


def lines(text: bytes) -> list[str]:
    """Splits at every line end that a tool may know, not only at \\n."""
    return text.decode().splitlines()


@pytest.mark.parametrize("name", EVIL, ids=range(len(EVIL)))
def test_control_characters_in_a_logged_name_do_not_split_the_line(written: Callable[[], bytes], name: str) -> None:
    logging.getLogger("antiphon").warning("model '%s' is not known", name)
    (line,) = lines(written())
    assert "\x1b" not in line
    assert "\u202e" not in line
    assert len(line) < MESSAGE_CHARS_MAX + 500
    assert "model 'm" in line


@pytest.mark.parametrize("name", EVIL, ids=range(len(EVIL)))
def test_control_characters_in_a_traceback_do_not_forge_log_lines(written: Callable[[], bytes], name: str) -> None:
    try:
        raise ValueError(name)
    except ValueError:
        logging.getLogger("antiphon").exception("a turn failed")
    first, *rest = lines(written())
    assert "a turn failed" in first
    assert all(line.startswith("    ") for line in rest)
    assert not any("\x1b" in line for line in (first, *rest))
    assert len(written()) < 20_000


async def test_requests_cannot_forge_log_lines(written: Callable[[], bytes]) -> None:
    async with running_edge() as edge:
        for name in EVIL[:5]:
            await edge.http.create(model=name, input=SECRET)
            await edge.http.create(model="m", input=SECRET, tools=[{"type": "function", "name": name}])
            await edge.http.create(model="m", input=[{"type": "function_call_output", "call_id": name, "output": "x"}])
            await edge.ask("GET", "/v1/responses/" + "resp_%0a" + "x" * 10)
    text = written()
    assert SECRET.encode() not in text
    for line in lines(text):
        if not line.startswith("    "):  # a line of a remedy
            assert line.startswith("{") or " antiphon_edge.access: " in line or " antiphon" in line
            assert not line.startswith(FORGED)
    if text.startswith(b"{"):
        assert all(orjson.loads(line) for line in text.splitlines())


TOLD = {"error": {"message": f"bad prompt: {SECRET}\n{FORGED}", "type": f"oops\n{FORGED}", "code": "bad_request"}}


def of_a_chat_server() -> None:
    for told in (TOLD, f"<html>{SECRET}</html>", {"error": SECRET}):
        chat_errors.of_answer(told, status=400, server="The server", model="m", url="http://engine:8000")


def of_triton() -> None:
    triton_errors.from_text(f"cannot handle {SECRET}\n{FORGED}", model="m")


@pytest.mark.parametrize("report", [of_a_chat_server, of_triton])
def test_prompt_text_in_engine_errors_is_not_logged(written: Callable[[], bytes], report: Callable[[], None]) -> None:
    report()
    text = written().decode()
    assert "model 'm'" in text
    assert SECRET not in text
    assert not any(line.startswith(FORGED) for line in lines(text.encode()))
