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


def configure(settings: LogSettings) -> None:
    """Sends all logs to standard error in the chosen form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLine() if settings.json else _TextLine())
    logging.basicConfig(level=settings.level, handlers=[handler], force=True)


class _TextLine(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s%(request)s")

    def format(self, record: logging.LogRecord) -> str:
        current = request_id.get()
        record.request = f" [{current}]" if current else ""
        return super().format(record)


class _JsonLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": record.created,
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        if current := request_id.get():
            line["request_id"] = current
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()
