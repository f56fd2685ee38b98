"""Correlation ids of the current task: request, response, job and trace. Log lines and calls to other services have
these ids, so that one request can be followed through all services.

A task that is started inherits the ids. The module needs no library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from antiphon_core.telemetry.trace_context import TRACEPARENT, TRACESTATE, TraceContext

REQUEST_ID_KEY = "x-request-id"
RESPONSE_ID_KEY = "antiphon-response-id"
"""Only in calls between Antiphon's own services."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclass(frozen=True, slots=True)
class Correlation:
    """The ids of one piece of work. Unknown ids are empty."""

    request_id: str = ""
    response_id: str = ""
    job_id: str = ""
    trace: TraceContext | None = None

    @classmethod
    def of_call(cls, headers: Mapping[str, str]) -> Correlation:
        """Reads the ids in the headers of a call, whose names are in lower case. Malformed ids are ignored."""
        return cls(
            request_id=_id_in(headers, REQUEST_ID_KEY),
            response_id=_id_in(headers, RESPONSE_ID_KEY),
            trace=TraceContext.parse(headers.get(TRACEPARENT, ""), headers.get(TRACESTATE, "")),
        )

    def fields(self) -> dict[str, str]:
        """The known ids, by the names of their log fields."""
        found = {"request_id": self.request_id, "response_id": self.response_id, "job_id": self.job_id}
        if self.trace is not None:
            found |= {"trace_id": self.trace.trace_id, "span_id": self.trace.span_id}
        return {name: value for name, value in found.items() if value}


_current: ContextVar[Correlation] = ContextVar("correlation", default=Correlation())  # noqa: B039 - it is frozen


def current() -> Correlation:
    """The ids of this task."""
    return _current.get()


def sampled_trace_id() -> str:
    """The trace id of this task for exemplars; empty if the trace is not sampled."""
    trace = _current.get().trace
    return trace.trace_id if trace is not None and trace.is_sampled else ""


def begin(correlation: Correlation) -> None:
    """Replaces all ids of this task, at the beginning of a request or job."""
    _current.set(correlation)


def note(**changes: Any) -> None:
    """Adds or replaces some ids of this task."""
    now, given = _current.get(), changes.get
    _current.set(  # takes a third of the time of dataclasses.replace
        Correlation(
            given("request_id", now.request_id),
            given("response_id", now.response_id),
            given("job_id", now.job_id),
            given("trace", now.trace),
        )
    )


def engine_headers() -> list[tuple[str, str]]:
    """The headers of a call to a model's server: the request id and the trace."""
    now = _current.get()
    headers = [(REQUEST_ID_KEY, now.request_id)] if now.request_id else []
    return headers + now.trace.headers() if now.trace is not None else headers


def service_headers() -> list[tuple[str, str]]:
    """The metadata of a call between Antiphon's services: the headers of `engine_headers` and the response id."""
    response_id = _current.get().response_id
    headers = engine_headers()
    return [*headers, (RESPONSE_ID_KEY, response_id)] if response_id else headers


def _id_in(headers: Mapping[str, str], name: str) -> str:
    given = headers.get(name, "")
    return given if _ID.fullmatch(given) else ""
