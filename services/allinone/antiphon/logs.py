"""Logging: one line for each event, as text or as JSON, with the ids of the request, response or job that it concerns.

Modules log with Python's `logging`, as the libraries do. Text is for development and needs no library. JSON lines are
made by structlog and have the fields that `telemetry/log_fields.py` declares, no others. Prompts, answers and
credentials are never logged.

A line may quote names that a client chose. To prevent log injection and terminal escapes, control characters are
escaped and the length is limited. The lines of a traceback are indented.

A line that cannot be written is lost and counted: a full disk, or a pipe that is closed or not read, never fails or
delays a request (line_output.py).
"""

from __future__ import annotations

import logging
import re
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from antiphon_core import audit
from antiphon_core.config import SettingsError
from antiphon_core.line_output import STDERR_FD, STDOUT_FD, LineOutput
from antiphon_core.telemetry import correlation, log_fields, metrics

log = logging.getLogger(__name__)

MESSAGE_CHARS_MAX = 4_096
TRACEBACK_LINES_MAX = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that end a line, control a terminal, change the direction of text, or cannot be encoded."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = field(
        default="INFO", metadata={"doc": "Lowest level that is logged.", "alias": "NIM_LOG_LEVEL"}
    )
    json: bool = field(
        default=False, metadata={"doc": "One JSON object per line instead of text.", "alias": "NIM_JSONL_LOGGING"}
    )
    audit: Path | None = field(
        default=None,
        metadata={
            "doc": "File to which a line of JSON is appended for each request: its caller, tenant, action, ids and "
            "result. It may be moved away at any time. Without it there is no audit log."
        },
    )
    audit_required: bool = field(
        default=False,
        metadata={
            "doc": "Whether a request is rejected with 503 before it runs if the audit log cannot be written. Each "
            "request then has a line for its start, too. Without this, lines that cannot be written are counted, and "
            "requests go on."
        },
    )

    def __post_init__(self) -> None:
        if self.audit_required and self.audit is None:
            raise SettingsError("ANTIPHON_LOG_AUDIT_REQUIRED needs ANTIPHON_LOG_AUDIT, the file of the audit log.")


def configure(settings: LogSettings, *, worker: int | None = None, fd: int = STDERR_FD) -> None:
    """Sends all logs to `fd` in the chosen form, and the audit log to its file. `worker` is the number of this process
    if several write to the same `fd`. SettingsError: the audit log cannot be opened."""
    handler = _LineHandler(LineOutput(fd))
    handler.setFormatter(_json_lines(worker) if settings.json else _TextLine(worker))
    logging.basicConfig(level=settings.level, handlers=[handler], force=True)
    audit.configure(settings.audit, is_required=settings.audit_required)


def announce(text: str, *, fd: int = STDOUT_FD) -> None:
    """Prints lines for people, such as the banner. If they cannot be written, the process goes on without them."""
    try:
        LineOutput(fd).write(text.encode(errors="backslashreplace"))
    except OSError as error:
        metrics.LOG_LINES_LOST.of().add()
        log.warning("standard output cannot be written: %s", error)


class _LineHandler(logging.Handler):
    """Writes each record as a line, and says how many were lost once it can."""

    def __init__(self, output: LineOutput) -> None:
        super().__init__()
        self._output = output
        self._lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode(errors="backslashreplace")
        except Exception:  # noqa: BLE001 - a bug in the call that logs: logging prints it, and the call goes on
            self.handleError(record)
            return
        try:
            self._output.write(line)
        except OSError:
            self._lost += 1
            metrics.LOG_LINES_LOST.of().add()
            return
        if self._lost:
            lost, self._lost = self._lost, 0
            log.warning("%d lines of this log before the last one could not be written", lost)


class _TextLine(logging.Formatter):
    def __init__(self, worker: int | None) -> None:
        process = f" worker {worker}:" if worker is not None else ""
        super().__init__(f"%(asctime)s %(levelname)-7s{process} %(name)s: %(message)s%(ids)s%(advice)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return indent(super().formatException(ei))

    def format(self, record: logging.LogRecord) -> str:
        now = correlation.current()
        ids = [each for each in (now.request_id, now.response_id) if each and each not in record.getMessage()]
        record.ids = f" [{' '.join(ids)}]" if ids else ""
        remedy = getattr(record, log_fields.REMEDY, "")
        record.advice = f"\n    {remedy}" if remedy else ""
        return super().format(record)


def one_line(text: str, *, most: int = MESSAGE_CHARS_MAX) -> str:
    """Escapes control characters in a text and truncates it to `most` characters."""
    shown = text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], shown)


def indent(text: str) -> str:
    """Indents a traceback, so that none of its lines can be taken for a line of the log."""
    return "\n".join("    " + one_line(line) for line in text.split("\n")[:TRACEBACK_LINES_MAX])


def _json_lines(worker: int | None) -> logging.Formatter:
    from structlog.processors import JSONRenderer, format_exc_info
    from structlog.stdlib import ExtraAdder, ProcessorFormatter

    process = {} if worker is None else {log_fields.WORKER: worker}

    def add_facts(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        record: logging.LogRecord = line["_record"]
        facts: dict[str, Any] = {
            log_fields.TS: record.created,
            log_fields.LEVEL: record.levelname,
            log_fields.LOGGER: record.name,
        }
        message = one_line(str(line[log_fields.EVENT]))  # for the length: JSON escapes line ends itself
        return {**facts, **process, **correlation.current().fields(), **line, log_fields.EVENT: message}

    def bound_traceback(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if log_fields.EXCEPTION in line:
            line[log_fields.EXCEPTION] = indent(line[log_fields.EXCEPTION])
        return line

    return ProcessorFormatter(
        foreign_pre_chain=[add_facts, ExtraAdder(log_fields.EXTRA)],
        processors=[
            ProcessorFormatter.remove_processors_meta,
            format_exc_info,
            bound_traceback,
            JSONRenderer(serializer=lambda line, **_: orjson.dumps(line, default=str).decode()),
        ],
    )
