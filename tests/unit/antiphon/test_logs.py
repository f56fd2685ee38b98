from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from antiphon import logs
from antiphon.logs import LogSettings
from antiphon_core.jsons import loads
from antiphon_core.telemetry import correlation, metrics, remedies
from antiphon_core.telemetry.correlation import Correlation
from antiphon_core.telemetry.trace_context import TraceContext


@pytest.fixture(autouse=True)
def _restore_logging() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_text_lines_end_with_the_request_id(capfd: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings())
    correlation.begin(Correlation(request_id="req_1", response_id="resp_2"))
    logging.getLogger("x").info("hello %s", "there")
    correlation.begin(Correlation())
    logging.getLogger("x").info("outside")
    first, second = capfd.readouterr().err.splitlines()
    assert first.endswith("INFO    x: hello there [req_1 resp_2]")
    assert second.endswith("INFO    x: outside")


def test_json_lines_are_one_object_each(capfd: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(json=True))
    try:
        raise ValueError("broken\nin two lines")
    except ValueError:
        logging.getLogger("x").exception("it failed")
    (line,) = capfd.readouterr().err.splitlines()
    entry = loads(line)
    assert (entry["level"], entry["logger"], entry["event"]) == ("ERROR", "x", "it failed")
    assert "ValueError: broken" in entry["exception"]


def test_lines_below_the_log_level_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(level="WARNING"))
    logging.getLogger("x").info("quiet")
    assert capfd.readouterr().err == ""


def test_lines_of_a_worker_process_have_its_number(capfd: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(), worker=2)
    logging.getLogger("x").info("hello")
    logs.configure(LogSettings(json=True), worker=2)
    logging.getLogger("x").info("hello")
    first, second = capfd.readouterr().err.splitlines()
    assert first.endswith("INFO    worker 2: x: hello")
    assert loads(second)["worker"] == 2


def test_a_logged_error_is_followed_by_its_remedy(capfd: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings())
    logging.getLogger("x").error("it failed", extra=remedies.REPORT)
    logs.configure(LogSettings(json=True))
    logging.getLogger("x").error("it failed", extra=remedies.REPORT)
    text, advice, line = capfd.readouterr().err.splitlines()
    assert text.endswith("ERROR   x: it failed")
    assert advice.strip() == loads(line)["remedy"] == remedies.REPORT["remedy"]


def test_a_json_line_has_the_ids_of_its_task_and_declared_fields_only(capfd: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(json=True))
    trace = TraceContext("1" * 32, "2" * 16, is_sampled=True)
    correlation.begin(Correlation("req_1", "resp_1", "job_1", trace))
    logging.getLogger("x").info("hello", extra={"status": 200, "prompt": "secret", "response_id": "resp_2"})
    correlation.begin(Correlation())
    line = loads(capfd.readouterr().err)
    assert line.pop("ts") > 1e9
    assert line == {
        "level": "INFO",
        "logger": "x",
        "event": "hello",
        "request_id": "req_1",
        "response_id": "resp_2",
        "job_id": "job_1",
        "trace_id": "1" * 32,
        "span_id": "2" * 16,
        "status": 200,
    }


def test_line_ends_and_control_characters_are_escaped() -> None:
    assert logs.one_line("a\nb\x1b[0m\u2028c\u202ed\udcff") == r"a\nb\x1b[0m\u2028c\u202ed\udcff"
    assert logs.one_line("tab\tand \u00e9") == "tab\\tand \u00e9"


def test_a_long_message_is_cut() -> None:
    assert logs.one_line("x" * 10, most=4) == "xxxx... (10 characters)"


def test_a_traceback_is_indented_and_bounded() -> None:
    shown = logs.indent("\n".join(["line"] * 1_000))
    assert set(shown.split("\n")) == {"    line"}
    assert len(shown.split("\n")) == logs.TRACEBACK_LINES_MAX


def test_log_lines_that_cannot_be_written_are_counted_and_never_raise(tmp_path: Path) -> None:
    fd, full = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT), os.open("/dev/full", os.O_WRONLY)
    logs.configure(LogSettings(), fd=full)
    before = metrics.LOG_LINES_LOST.of().value
    for _ in range(3):
        logging.getLogger("x").info("lost")
    assert metrics.LOG_LINES_LOST.of().value == before + 3
    os.dup2(fd, full)
    logging.getLogger("x").info("there is room")
    written = (tmp_path / "log").read_text()
    assert [line.split(": ", 1)[1] for line in written.splitlines()] == [
        "there is room",
        "3 lines of this log before the last one could not be written",
    ]
    os.close(fd)
    os.close(full)


def test_announcement_that_cannot_be_written_is_logged_and_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = os.pipe()
    logs.announce("é\udc80", fd=writer)
    assert os.read(reader, 100) == "é\\udc80\n".encode()
    os.close(reader)
    logs.announce("nobody reads this", fd=writer)
    assert "standard output cannot be written: [Errno 32] Broken pipe" in caplog.text
    os.close(writer)
