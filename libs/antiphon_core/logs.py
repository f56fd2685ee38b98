"""Logging: one line per event, for people or as JSON, with the id of the request it belongs to.

Prompts, answers and credentials are never logged.
"""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

import orjson

request_id: ContextVar[str] = ContextVar("request_id", default="")


@dataclass(frozen=True, slots=True)
class LogSettings:
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = field(
        default="INFO", metadata={"doc": "Least level that is written.", "alias": "NIM_LOG_LEVEL"}
    )
    json: bool = field(
        default=False, metadata={"doc": "One JSON object per line instead of text.", "alias": "NIM_JSONL_LOGGING"}
    )


def configure(settings: LogSettings, *, worker: int | None = None) -> None:
    """Sends all logs to standard error in the chosen form. `worker` is the number of this process among several that
    write to the same place."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLine(worker) if settings.json else _TextLine(worker))
    logging.basicConfig(level=settings.level, handlers=[handler], force=True)


class _TextLine(logging.Formatter):
    def __init__(self, worker: int | None) -> None:
        process = f" worker {worker}:" if worker is not None else ""
        super().__init__(f"%(asctime)s %(levelname)-7s{process} %(name)s: %(message)s%(request)s")

    def format(self, record: logging.LogRecord) -> str:
        current = request_id.get()
        record.request = f" [{current}]" if current else ""
        return super().format(record)


class _JsonLine(logging.Formatter):
    def __init__(self, worker: int | None) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": record.created,
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        if self._worker is not None:
            line["worker"] = self._worker
        if current := request_id.get():
            line["request_id"] = current
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()
