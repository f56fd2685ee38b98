"""All errors of Antiphon, and the names and codes that each of them has in the gRPC API and in the HTTP API.

    AntiphonError
    ├── InvalidRequest                 a mistake in the request; `field` names the wrong field, `code` the mistake
    │   ├── PreviousResponseNotFound
    │   └── ContextLengthExceeded
    ├── InvalidApiKey                  the edge could not authenticate an HTTP request
    ├── Unauthenticated                a service could not authenticate an RPC
    ├── PermissionDenied               the caller is known, and lacks the tenant or the role
    ├── NotFound
    │   ├── ResponseNotFound
    │   ├── ItemNotFound
    │   ├── ConversationNotFound
    │   ├── LogNotFound
    │   ├── JobNotFound
    │   ├── ApprovalNotFound
    │   └── ModelNotFound
    ├── Conflict                       the state is not what the write expected; nothing was written
    │   ├── AlreadyExists
    │   ├── VersionMismatch
    │   ├── StatusMismatch
    │   ├── StaleFence
    │   ├── IdempotencyMismatch
    │   ├── PositionMismatch
    │   ├── LogClosed
    │   ├── SessionLocked
    │   ├── SessionLost                the lease was lost: other turns may have continued the session meanwhile
    │   ├── PreviousResponseNotReady   the response that the request continues has not ended
    │   └── ApprovalAlreadyUsed        another response has used the approval; `used_by` is its id
    ├── LimitExceeded
    │   ├── ChainTooLong
    │   ├── TooLarge
    │   ├── RequestRateExceeded        the tenant's rate limit; `retry_after_ms` is the time until a retry
    │   └── TokenRateExceeded
    ├── Unavailable                    try again later, possibly elsewhere
    │   ├── StoreUnavailable
    │   ├── TranslatorUnavailable
    │   ├── ToolsUnavailable
    │   └── EngineUnavailable
    │       └── EngineOverloaded       `retry_after_ms` is the engine's own advice, if it gave one
    ├── Timeout
    │   └── EngineTimeout
    ├── EngineFault                    the engine answered with an error of its own
    │   └── EngineMisconfigured        the model's profile does not fit its server: only an operator can correct it
    ├── ToolServerFault                a tool server answered with an error, or not at all
    ├── ServiceFault                   a service of Antiphon answered what its protocol excludes
    ├── Unimplemented
    └── InternalError                  a bug of Antiphon; the cause is logged, never sent
        └── DataDamaged                stored data cannot be read: only an operator can restore it

An error has *facts*, short strings such as ids and counts, so that no program has to parse its message. `TABLE` maps a
class to its gRPC status, its HTTP status and OpenAI's `type` and `code`. Exceptions of libraries are caught in the
module that calls the library.

Messages and facts quote what callers wrote, which may be long. The constructor truncates them: an error that does not
fit into the trailers of an RPC would arrive as another error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Self

from antiphon_core.cutting import cut
from antiphon_core.limits import ERROR_FACT_BYTES_MAX, ERROR_MESSAGE_BYTES_MAX

ERROR_DOMAIN = "antiphon"


class AntiphonError(Exception):
    """The base class of all errors. It is never raised itself."""

    usage: Mapping[str, Any] | None = None
    """The usage of tokens that were generated before the error, for the tenant's quota. It is not sent to callers."""

    def __init__(self, message: str, *, field: str | None = None, **facts: object) -> None:
        self.message = cut(message, ERROR_MESSAGE_BYTES_MAX)
        super().__init__(self.message)
        self.field = None if field is None else cut(field, ERROR_FACT_BYTES_MAX)
        self.facts = {name: cut(str(value), ERROR_FACT_BYTES_MAX) for name, value in facts.items() if value is not None}

    reason: ClassVar[str]  # set from TABLE: the name of the error in google.rpc.ErrorInfo

    @property
    def code(self) -> str | None:
        """OpenAI's `code`: the fact `code`, else the code of the class in TABLE."""
        return self.facts.get("code") or row_of(self).openai_code


class InvalidRequest(AntiphonError):
    pass


class PreviousResponseNotFound(InvalidRequest):
    @classmethod
    def of(cls, response_id: str) -> Self:
        message = f"Previous response with id '{response_id}' not found."
        return cls(message, field="previous_response_id", id=response_id)


class ContextLengthExceeded(InvalidRequest):
    @classmethod
    def of(cls, *, input_tokens: int, context_length: int, is_floor: bool = False) -> Self:
        """`is_floor`: `input_tokens` is a lower bound, because the input was not counted to its end."""
        at_least = "at least " if is_floor else ""
        return cls(
            f"The input is {at_least}{input_tokens} tokens long, and this model's context holds {context_length}. "
            "Shorten the input or start a new chain.",
            field="input",
            input_tokens=input_tokens,
            context_length=context_length,
        )


class InvalidApiKey(AntiphonError):
    pass


class Unauthenticated(AntiphonError):
    pass


class PermissionDenied(AntiphonError):
    @classmethod
    def of(cls, name: str, *, tenant: str) -> Self:
        return cls(f"The credential '{name}' may not speak for the tenant '{tenant}'.", name=name, tenant=tenant)

    @classmethod
    def of_roles(cls, name: str, *, method: str, roles: str) -> Self:
        message = f"The credential '{name}' may not call {method}, which needs one of the roles: {roles}."
        return cls(message, name=name, method=method, roles=roles)


class NotFound(AntiphonError):
    pass


class ResponseNotFound(NotFound):
    @classmethod
    def of(cls, response_id: str) -> Self:
        return cls(f"Response with id '{response_id}' not found.", id=response_id)


class ItemNotFound(NotFound):
    @classmethod
    def of(cls, item_id: str) -> Self:
        return cls(f"Item with id '{item_id}' not found.", id=item_id)


class LogNotFound(NotFound):
    @classmethod
    def of(cls, response_id: str) -> Self:
        return cls(f"There are no events of response '{response_id}'.", id=response_id)


class JobNotFound(NotFound):
    @classmethod
    def of(cls, job_id: str) -> Self:
        return cls(f"Job with id '{job_id}' not found.", id=job_id)


class ApprovalNotFound(NotFound):
    @classmethod
    def of(cls, approval_id: str) -> Self:
        return cls(f"Approval request with id '{approval_id}' not found.", field="input", id=approval_id)


class ConversationNotFound(NotFound):
    @classmethod
    def of(cls, conversation_id: str) -> Self:
        return cls(f"Conversation with id '{conversation_id}' not found.", id=conversation_id)


class ModelNotFound(NotFound):
    @classmethod
    def of(cls, model: str) -> Self:
        return cls(f"The model '{model}' does not exist or is not served here.", field="model", model=model)


class Conflict(AntiphonError):
    pass


class AlreadyExists(Conflict):
    @classmethod
    def of(cls, record_id: str) -> Self:
        return cls(f"'{record_id}' exists already, with other content.", id=record_id)


class VersionMismatch(Conflict):
    @classmethod
    def of(cls, record_id: str, *, expected: int, actual: int) -> Self:
        message = f"'{record_id}' is at version {actual}, not {expected}."
        return cls(message, id=record_id, expected=expected, actual=actual)


class StatusMismatch(Conflict):
    @classmethod
    def of(cls, record_id: str, *, actual: str) -> Self:
        return cls(f"'{record_id}' has status {actual}, which excludes this change.", id=record_id, actual=actual)


class StaleFence(Conflict):
    @classmethod
    def of(cls, session_id: str, *, token: int) -> Self:
        message = f"The lease on '{session_id}' has expired or was taken over: nothing was written."
        return cls(message, session_id=session_id, token=token)


class PositionMismatch(Conflict):
    @classmethod
    def of(cls, response_id: str, *, expected: int, actual: int) -> Self:
        message = f"The event log of '{response_id}' ends at position {actual}: events at {expected} do not follow it."
        return cls(message, id=response_id, expected=expected, actual=actual)


class LogClosed(Conflict):
    @classmethod
    def of(cls, response_id: str) -> Self:
        return cls(f"The event log of '{response_id}' has ended: no events can be added.", id=response_id)


class IdempotencyMismatch(Conflict):
    @classmethod
    def of(cls, idempotency_key: str) -> Self:
        return cls(
            f"The idempotency key '{idempotency_key}' belongs to another request. Use a new key for a new request.",
            field="idempotency_key",
            key=idempotency_key,
        )


class SessionLocked(Conflict):
    @classmethod
    def of(cls, session_id: str) -> Self:
        return cls(
            "Another process is currently operating on this conversation. Please retry in a few seconds.",
            field="conversation",
            session_id=session_id,
        )


class PreviousResponseNotReady(Conflict):
    @classmethod
    def of(cls, response_id: str, *, status: str, field: str = "previous_response_id") -> Self:
        return cls(
            f"Response with id '{response_id}' is still {status}. Wait until it has ended, or cancel it, and continue "
            "it then.",
            field=field,
            id=response_id,
            status=status,
        )


class ApprovalAlreadyUsed(Conflict):
    @classmethod
    def of(cls, approval_id: str, *, used_by: str) -> Self:
        message = f"The approval request '{approval_id}' was answered already: response '{used_by}' used the answer."
        return cls(message, field="input", id=approval_id, used_by=used_by)


class SessionLost(Conflict):
    @classmethod
    def of(cls, session_id: str) -> Self:
        return cls(
            "Another request may have continued this conversation while the response was generated, so the response "
            "was not stored. Send the request again.",
            field="conversation",
            session_id=session_id,
        )


class LimitExceeded(AntiphonError):
    pass


class ChainTooLong(LimitExceeded):
    @classmethod
    def of(cls, response_id: str, *, limit: str) -> Self:
        return cls(
            f"The history up to '{response_id}' is over the limit of {limit}. Start a new chain.",
            field="previous_response_id",
            id=response_id,
            limit=limit,
        )


class TooLarge(LimitExceeded):
    pass


class RequestRateExceeded(LimitExceeded):
    pass


class TokenRateExceeded(LimitExceeded):
    pass


class Unavailable(AntiphonError):
    @classmethod
    def at_shutdown(cls, advice: str) -> Self:
        """The server ends. `advice` says how the client goes on."""
        return cls(f"The server is shutting down. {advice}", code="server_shutting_down")

    @property
    def is_away(self) -> bool:
        """Whether the service could not be reached, as opposed to answering that it is unavailable."""
        return "away" in self.facts

    @property
    def is_unprocessed(self) -> bool:
        """Whether no server can have begun the call."""
        return "unprocessed" in self.facts

    @property
    def is_full(self) -> bool:
        """Whether only new data is rejected, for lack of room. Stored data can still be read and deleted."""
        return "full" in self.facts


class StoreUnavailable(Unavailable):
    pass


class TranslatorUnavailable(Unavailable):
    pass


class ToolsUnavailable(Unavailable):
    pass


class EngineUnavailable(Unavailable):
    pass


class EngineOverloaded(EngineUnavailable):
    pass


class Timeout(AntiphonError):
    pass


class EngineTimeout(Timeout):
    pass


class EngineFault(AntiphonError):
    pass


class EngineMisconfigured(EngineFault):
    pass


class ToolServerFault(AntiphonError):
    pass


class ServiceFault(AntiphonError):
    pass


class Unimplemented(AntiphonError):
    @classmethod
    def of(cls, what: str) -> Self:
        return cls(f"{what} is not implemented.", what=what)


class InternalError(AntiphonError):
    pass


class DataDamaged(InternalError):
    @classmethod
    def of(cls, what: str) -> Self:
        """`what` names a row or its content, such as "the history of 'resp_1'"."""
        return cls(f"{what[:1].upper()}{what[1:]} is damaged in the database.", what=what)


class GrpcStatus(IntEnum):
    """The gRPC status codes of Antiphon's errors. `grpc` has them, too, but settings and commands import this module,
    and importing `grpc` takes as long as importing everything else that they need."""

    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


@dataclass(frozen=True, slots=True)
class Row:
    """The names and codes of one error class on each surface."""

    error: type[AntiphonError]
    reason: str
    grpc_status: GrpcStatus
    http_status: int
    openai_type: str
    openai_code: str | None


_REQUEST, _SERVER = "invalid_request_error", "server_error"
_Code = GrpcStatus

TABLE: tuple[Row, ...] = (
    Row(InvalidRequest, "INVALID_REQUEST", _Code.INVALID_ARGUMENT, 400, _REQUEST, None),
    Row(
        PreviousResponseNotFound,
        "PREVIOUS_RESPONSE_NOT_FOUND",
        _Code.NOT_FOUND,
        400,
        _REQUEST,
        "previous_response_not_found",
    ),
    Row(
        ContextLengthExceeded,
        "CONTEXT_LENGTH_EXCEEDED",
        _Code.INVALID_ARGUMENT,
        400,
        _REQUEST,
        "context_length_exceeded",
    ),
    Row(InvalidApiKey, "INVALID_API_KEY", _Code.UNAUTHENTICATED, 401, _REQUEST, "invalid_api_key"),
    # 500, because these concern the credentials of Antiphon's own services: the HTTP client cannot correct them.
    Row(Unauthenticated, "UNAUTHENTICATED", _Code.UNAUTHENTICATED, 500, _SERVER, "service_unauthenticated"),
    Row(PermissionDenied, "PERMISSION_DENIED", _Code.PERMISSION_DENIED, 500, _SERVER, "service_permission_denied"),
    Row(NotFound, "NOT_FOUND", _Code.NOT_FOUND, 404, _REQUEST, None),
    Row(ResponseNotFound, "RESPONSE_NOT_FOUND", _Code.NOT_FOUND, 404, _REQUEST, None),
    Row(ItemNotFound, "ITEM_NOT_FOUND", _Code.NOT_FOUND, 404, _REQUEST, None),
    Row(LogNotFound, "LOG_NOT_FOUND", _Code.NOT_FOUND, 404, _REQUEST, None),
    Row(JobNotFound, "JOB_NOT_FOUND", _Code.NOT_FOUND, 404, _REQUEST, None),
    Row(ApprovalNotFound, "APPROVAL_NOT_FOUND", _Code.NOT_FOUND, 404, _REQUEST, "approval_not_found"),
    Row(ConversationNotFound, "CONVERSATION_NOT_FOUND", _Code.NOT_FOUND, 404, _REQUEST, None),
    Row(ModelNotFound, "MODEL_NOT_FOUND", _Code.NOT_FOUND, 404, _REQUEST, "model_not_found"),
    Row(Conflict, "CONFLICT", _Code.ABORTED, 409, _REQUEST, "conflict"),
    Row(AlreadyExists, "ALREADY_EXISTS", _Code.ALREADY_EXISTS, 409, _REQUEST, "already_exists"),
    Row(VersionMismatch, "VERSION_MISMATCH", _Code.ABORTED, 409, _REQUEST, "version_mismatch"),
    Row(StatusMismatch, "STATUS_MISMATCH", _Code.ABORTED, 409, _REQUEST, "status_mismatch"),
    Row(StaleFence, "STALE_FENCE", _Code.ABORTED, 409, _REQUEST, "taken_over"),
    Row(PositionMismatch, "POSITION_MISMATCH", _Code.ABORTED, 409, _REQUEST, "position_mismatch"),
    Row(LogClosed, "LOG_CLOSED", _Code.FAILED_PRECONDITION, 409, _REQUEST, "log_closed"),
    Row(
        IdempotencyMismatch,
        "IDEMPOTENCY_MISMATCH",
        _Code.FAILED_PRECONDITION,
        409,
        _REQUEST,
        "idempotency_key_reused",
    ),
    Row(SessionLocked, "SESSION_LOCKED", _Code.ABORTED, 400, _REQUEST, "conversation_locked"),
    Row(
        PreviousResponseNotReady,
        "PREVIOUS_RESPONSE_NOT_READY",
        _Code.FAILED_PRECONDITION,
        400,
        _REQUEST,
        "previous_response_not_ready",
    ),
    Row(
        ApprovalAlreadyUsed,
        "APPROVAL_ALREADY_USED",
        _Code.FAILED_PRECONDITION,
        409,
        _REQUEST,
        "approval_already_used",
    ),
    Row(SessionLost, "SESSION_LOST", _Code.ABORTED, 409, _REQUEST, "conversation_lost"),
    Row(LimitExceeded, "LIMIT_EXCEEDED", _Code.RESOURCE_EXHAUSTED, 400, _REQUEST, "limit_exceeded"),
    Row(ChainTooLong, "CHAIN_TOO_LONG", _Code.RESOURCE_EXHAUSTED, 400, _REQUEST, "context_length_exceeded"),
    Row(TooLarge, "TOO_LARGE", _Code.RESOURCE_EXHAUSTED, 413, _REQUEST, "request_too_large"),
    # OpenAI's `type` of a 429 names the exceeded quota.
    Row(
        RequestRateExceeded,
        "REQUEST_RATE_EXCEEDED",
        _Code.RESOURCE_EXHAUSTED,
        429,
        "requests",
        "rate_limit_exceeded",
    ),
    Row(TokenRateExceeded, "TOKEN_RATE_EXCEEDED", _Code.RESOURCE_EXHAUSTED, 429, "tokens", "rate_limit_exceeded"),
    Row(Unavailable, "UNAVAILABLE", _Code.UNAVAILABLE, 503, _SERVER, "unavailable"),
    Row(StoreUnavailable, "STORE_UNAVAILABLE", _Code.UNAVAILABLE, 503, _SERVER, "store_unavailable"),
    Row(TranslatorUnavailable, "TRANSLATOR_UNAVAILABLE", _Code.UNAVAILABLE, 503, _SERVER, "translator_unavailable"),
    Row(ToolsUnavailable, "TOOLS_UNAVAILABLE", _Code.UNAVAILABLE, 503, _SERVER, "tools_unavailable"),
    Row(EngineUnavailable, "ENGINE_UNAVAILABLE", _Code.UNAVAILABLE, 503, _SERVER, "engine_unavailable"),
    Row(EngineOverloaded, "ENGINE_OVERLOADED", _Code.UNAVAILABLE, 429, "requests", "rate_limit_exceeded"),
    Row(Timeout, "TIMEOUT", _Code.DEADLINE_EXCEEDED, 504, _SERVER, "timeout"),
    Row(EngineTimeout, "ENGINE_TIMEOUT", _Code.DEADLINE_EXCEEDED, 504, _SERVER, "engine_timeout"),
    Row(EngineFault, "ENGINE_FAULT", _Code.UNKNOWN, 502, _SERVER, "engine_fault"),
    Row(EngineMisconfigured, "ENGINE_MISCONFIGURED", _Code.FAILED_PRECONDITION, 502, _SERVER, "engine_misconfigured"),
    # OpenAI's status and type for an MCP server that does not list its tools.
    Row(ToolServerFault, "TOOL_SERVER_FAULT", _Code.UNKNOWN, 424, "external_connector_error", "tool_server_error"),
    Row(ServiceFault, "SERVICE_FAULT", _Code.UNKNOWN, 502, _SERVER, "service_fault"),
    Row(Unimplemented, "UNIMPLEMENTED", _Code.UNIMPLEMENTED, 501, _SERVER, "unimplemented"),
    Row(InternalError, "INTERNAL", _Code.INTERNAL, 500, _SERVER, "server_error"),
    Row(DataDamaged, "DATA_DAMAGED", _Code.DATA_LOSS, 500, _SERVER, "data_damaged"),
)

_ROW_BY_CLASS = {row.error: row for row in TABLE}
_ROW_BY_REASON = {row.reason: row for row in TABLE}
for _row in TABLE:
    _row.error.reason = _row.reason


def row_of(error: AntiphonError) -> Row:
    """The table row of an error."""
    return _ROW_BY_CLASS[type(error)]


def for_log(error: BaseException) -> str:
    """Describes an error for the log. The message of a mistake in a request may quote the request, so it is left
    out."""
    if isinstance(error, (InvalidRequest, NotFound)):
        return " ".join(filter(None, (type(error).__name__, error.code)))
    return str(error)


def revive(reason: str, message: str, facts: dict[str, str]) -> AntiphonError:
    """Rebuilds an error that another process raised. An unknown `reason` becomes an InternalError."""
    row = _ROW_BY_REASON.get(reason)
    cls = row.error if row else InternalError
    rest = {name: fact for name, fact in facts.items() if name not in ("self", "message", "field")}
    return cls(message, field=facts.get("field"), **rest)
