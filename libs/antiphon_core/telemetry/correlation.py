"""The ids of what runs now: request, response, job and trace. Log lines name them, and calls to other services carry
them, so that what happened to one request can be found everywhere.

They are those of the current task, and of the tasks that it starts. Needs no library.
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
"""Of calls between Antiphon's own services."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclass(frozen=True, slots=True)
class Correlation:
    """The ids of one piece of work. An empty one is not known."""

    request_id: str = ""
    response_id: str = ""
    job_id: str = ""
    trace: TraceContext | None = None

    @classmethod
    def of_call(cls, headers: Mapping[str, str]) -> Correlation:
        """The ids that a call brings, under names in lower case. What is no id is left out."""
        return cls(
            request_id=_id_in(headers, REQUEST_ID_KEY),
            response_id=_id_in(headers, RESPONSE_ID_KEY),
            trace=TraceContext.parse(headers.get(TRACEPARENT, ""), headers.get(TRACESTATE, "")),
        )

    @property
    def sampled_trace_id(self) -> str:
        """The trace in which this work is recorded, if there is one: for exemplars."""
        return self.trace.trace_id if self.trace is not None and self.trace.is_sampled else ""

    def fields(self) -> dict[str, str]:
        """The ids that are known, by the names of log fields."""
        found = {"request_id": self.request_id, "response_id": self.response_id, "job_id": self.job_id}
        if self.trace is not None:
            found |= {"trace_id": self.trace.trace_id, "span_id": self.trace.span_id}
        return {name: value for name, value in found.items() if value}


_current: ContextVar[Correlation] = ContextVar("correlation", default=Correlation())  # noqa: B039 - it is frozen


def current() -> Correlation:
    """The ids of what this task works on."""
    return _current.get()


def begin(correlation: Correlation) -> None:
    """From here on this task works on something else."""
    _current.set(correlation)


def note(**changes: Any) -> None:
    """Adds to the ids of this task, or replaces some."""
    now, given = _current.get(), changes.get
    _current.set(  # a third of the time of dataclasses.replace
        Correlation(
            given("request_id", now.request_id),
            given("response_id", now.response_id),
            given("job_id", now.job_id),
            given("trace", now.trace),
        )
    )


def engine_headers() -> list[tuple[str, str]]:
    """Makes the headers of a call to a model's server: the request's id and the trace."""
    now = _current.get()
    headers = [(REQUEST_ID_KEY, now.request_id)] if now.request_id else []
    return headers + now.trace.headers() if now.trace is not None else headers


def service_headers() -> list[tuple[str, str]]:
    """Makes the metadata of a call between Antiphon's services."""
    response_id = _current.get().response_id
    headers = engine_headers()
    return [*headers, (RESPONSE_ID_KEY, response_id)] if response_id else headers


def _id_in(headers: Mapping[str, str], name: str) -> str:
    given = headers.get(name, "")
    return given if _ID.fullmatch(given) else ""
