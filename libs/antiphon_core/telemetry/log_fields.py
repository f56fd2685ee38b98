"""The names of all fields of a JSON log line. A field with another name is dropped, so nothing is logged by accident.

Every line gets the ids of `correlation.py`. A call of `log` can add the fields in EXTRA with `extra={...}`.
"""

from __future__ import annotations

TS, LEVEL, LOGGER, EVENT = "ts", "level", "logger", "event"
WORKER = "worker"
"""The number of the process, from 1, if `serve.workers` starts several."""
REQUEST_ID, RESPONSE_ID, JOB_ID = "request_id", "response_id", "job_id"
TRACE_ID, SPAN_ID = "trace_id", "span_id"
EXCEPTION = "exception"
"""A traceback, with the messages of the exceptions in it."""

METHOD, ROUTE, STATUS, DURATION_MS = "method", "route", "status", "duration_ms"
CLIENT_REQUEST_ID = "client_request_id"
"""The id that the client gave the request (`x-client-request-id`)."""
REMEDY = "remedy"
"""The advice for an operator: `remedies.py`."""

EXTRA = frozenset({RESPONSE_ID, JOB_ID, METHOD, ROUTE, STATUS, DURATION_MS, CLIENT_REQUEST_ID, REMEDY})
"""The fields that a call of `log` can add. RESPONSE_ID and JOB_ID replace those of `correlation.py`."""
