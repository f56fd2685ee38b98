"""The fields of a log line besides its text. A JSON line has no others, so nothing else is logged by accident.

Every line gets the ids of `correlation.py`. A call of `log` may add the fields in EXTRA: `extra={...}`.
"""

from __future__ import annotations

TS, LEVEL, LOGGER, EVENT = "ts", "level", "logger", "event"
WORKER = "worker"
"""The number of the process, with `serve.workers`."""
REQUEST_ID, RESPONSE_ID, JOB_ID = "request_id", "response_id", "job_id"
TRACE_ID, SPAN_ID = "trace_id", "span_id"
EXCEPTION = "exception"
"""A traceback, with the messages of the exceptions in it."""

METHOD, ROUTE, STATUS, DURATION_MS = "method", "route", "status", "duration_ms"
CLIENT_REQUEST_ID = "client_request_id"
"""The client's own id of the request."""
REMEDY = "remedy"
"""The advice for an operator: `remedies.py`."""

EXTRA = frozenset({RESPONSE_ID, JOB_ID, METHOD, ROUTE, STATUS, DURATION_MS, CLIENT_REQUEST_ID, REMEDY})
"""The fields that a call of `log` may add. Its ids replace those of `correlation.py`."""
