"""The fields of a log line besides its text. A line in JSON has no others, so nothing comes into it by accident.

The ids are those of `correlation.py`, and are added to every line. A call of `log` may add the rest: `extra={...}`.
"""

from __future__ import annotations

TS, LEVEL, LOGGER, EVENT = "ts", "level", "logger", "event"
WORKER = "worker"
"""The number of the process among several of `serve.workers`."""
REQUEST_ID, RESPONSE_ID, JOB_ID = "request_id", "response_id", "job_id"
TRACE_ID, SPAN_ID = "trace_id", "span_id"
EXCEPTION = "exception"
"""A traceback. Its messages are those of libraries and of our own errors."""

METHOD, ROUTE, STATUS, DURATION_MS = "method", "route", "status", "duration_ms"
CLIENT_REQUEST_ID = "client_request_id"
"""The id that the client gave its request."""
REMEDY = "remedy"
"""The advice for an operator: `remedies.py`."""

EXTRA = frozenset({RESPONSE_ID, JOB_ID, METHOD, ROUTE, STATUS, DURATION_MS, CLIENT_REQUEST_ID, REMEDY})
"""The fields that a call of `log` may add. Ids that it adds count more than those of the task."""
