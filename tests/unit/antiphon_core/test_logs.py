from __future__ import annotations

import logging

import pytest

from antiphon_core import logs
from antiphon_core.jsons import loads
from antiphon_core.logs import LogSettings


@pytest.fixture(autouse=True)
def _restore_logging() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_text_lines_end_with_the_request_id(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings())
    token = logs.request_id.set("req_1")
    logging.getLogger("x").info("hello %s", "there")
    logs.request_id.reset(token)
    logging.getLogger("x").info("outside")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("INFO    x: hello there [req_1]")
    assert second.endswith("INFO    x: outside")


def test_json_lines_are_one_object_each(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(json=True))
    try:
        raise ValueError("broken\nin two lines")
    except ValueError:
        logging.getLogger("x").exception("it failed")
    (line,) = capsys.readouterr().err.splitlines()
    entry = loads(line)
    assert (entry["level"], entry["logger"], entry["event"]) == ("ERROR", "x", "it failed")
    assert "ValueError: broken" in entry["exception"]


def test_the_level_is_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(level="WARNING"))
    logging.getLogger("x").info("quiet")
    assert capsys.readouterr().err == ""


def test_lines_of_one_process_among_several_say_which(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(), worker=2)
    logging.getLogger("x").info("hello")
    logs.configure(LogSettings(json=True), worker=2)
    logging.getLogger("x").info("hello")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("INFO    worker 2: x: hello")
    assert loads(second)["worker"] == 2
