"""Observation of RPCs by clients and servers: durations, conflicts, spans, correlation ids and the audit log."""

from __future__ import annotations

from time import perf_counter
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from antiphon_core import audit
from antiphon_core.audit import Action
from antiphon_core.errors import AntiphonError, Conflict
from antiphon_core.rpc import callers
from antiphon_core.rpc.authentication import text_metadata
from antiphon_core.rpc.services import Method
from antiphon_core.rpc.status import code_of
from antiphon_core.telemetry import correlation, metrics, spans, tracing
from antiphon_core.telemetry.correlation import Correlation
from antiphon_core.telemetry.spans import SpanKind
from antiphon_http2.server.call import ServerCall

_OK = grpc.StatusCode.OK.name
_CANCELLED = grpc.StatusCode.CANCELLED.name
_UNKNOWN = grpc.StatusCode.UNKNOWN.name
_STORE = "store"

Failure = TypeVar("Failure", bound=AntiphonError)


class _ObservedCall:
    """A context around one RPC, which records its metrics and its span."""

    def __init__(self, method: Method, kind: SpanKind) -> None:
        self._method = method
        self._kind = kind
        self._code = _OK
        self._error = ""
        self._is_parent = False

    def __enter__(self) -> Self:
        name = self._method.path[1:]
        self._started_s = perf_counter()
        self._outer = correlation.current().trace
        self._span = tracing.begin(name, self._kind, {spans.RPC_SYSTEM: spans.GRPC, spans.RPC_METHOD: name})
        if tracing.is_on():
            self._is_parent = True
            correlation.note(trace=self._span.trace)
        return self

    def step_out(self) -> None:
        """Ends the call's role as parent of further spans. For generators, which run in the task of their reader."""
        if self._is_parent:
            self._is_parent = False
            correlation.note(trace=self._outer)

    def record_failure(self, error: Failure) -> Failure:
        """Records the error with which the call ends, and returns it."""
        self._error = type(error).__name__
        self._code = code_of(error).name
        is_conflict = isinstance(error, Conflict) and self._kind is SpanKind.SERVER and self._service == _STORE
        if is_conflict:
            metrics.STORE_CONFLICTS.of(self._method.name, self._error).add()
        return error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and not self._error:
            self._error = kind.__name__
            self._code = _UNKNOWN if issubclass(kind, Exception) else _CANCELLED
        if self._error:
            self._span.fail(self._error)
        self._observe(perf_counter() - self._started_s)
        self._span.note({spans.RPC_STATUS: self._code})
        self._span.end()
        self.step_out()

    def _observe(self, duration_s: float) -> None:
        """Records the duration of a unary call. That of a stream says nothing about the server."""
        if self._method.is_streaming:
            return
        histogram = metrics.RPC_SERVER if self._kind is SpanKind.SERVER else metrics.RPC_CLIENT
        child = histogram.of(self._service, self._method.name, self._code)
        child.observe(duration_s, correlation.sampled_trace_id())

    @property
    def _service(self) -> str:
        """The name of the server, which is in the package: `store` for antiphon.store.v1."""
        return self._method.path.split(".")[1]


class ServedCall(_ObservedCall):
    """An RPC that this process serves. It sets the correlation ids of its task to those of the call."""

    def __init__(self, method: Method, call: ServerCall) -> None:
        super().__init__(method, SpanKind.SERVER)
        self._call = call
        self._caller = ""
        self._tenant = ""
        self._ids: list[str] = []

    def record_caller(self, caller: str, tenant: str) -> None:
        """Records the caller and the tenant, for the audit log."""
        self._caller, self._tenant = caller, tenant

    def record_request(self, request: Any) -> None:
        """Records the ids in the request, for the audit log. Unavailable: the audit log is required, and the line of
        the call's start cannot be written."""
        if audit.is_on():
            self._ids = audit.ids_in(request)
            audit.require(self._action(audit.STARTED))

    def __enter__(self) -> Self:
        correlation.begin(Correlation.of_call(text_metadata(self._call.metadata)))
        if self._method.is_streaming:
            metrics.RPC_STREAMS.of(self._service, self._method.name).add()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._method.is_streaming:
            metrics.RPC_STREAMS.of(self._service, self._method.name).add(-1)
        super().__exit__(kind, error, traceback)
        if audit.is_on():
            audit.note(self._action(self._code))

    def _action(self, result: str) -> Action:
        peer, request_id = callers.host_of(self._call.peer), correlation.current().request_id
        path, ids = self._method.path, self._ids
        return Action(self._service, self._caller, peer, self._tenant, path, ids, result, request_id)


class MadeCall(_ObservedCall):
    """An RPC that this process makes."""

    def __init__(self, method: Method) -> None:
        super().__init__(method, SpanKind.CLIENT)
