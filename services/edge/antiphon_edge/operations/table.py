"""The table of operations: one row for each route, in the order of the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from antiphon_core.errors import (
    AlreadyExists,
    AntiphonError,
    ChainTooLong,
    ContextLengthExceeded,
    ConversationNotFound,
    EngineFault,
    EngineMisconfigured,
    EngineOverloaded,
    EngineTimeout,
    EngineUnavailable,
    IdempotencyMismatch,
    InvalidRequest,
    ItemNotFound,
    LimitExceeded,
    LogNotFound,
    ModelNotFound,
    NotFound,
    PreviousResponseNotFound,
    PreviousResponseNotReady,
    ResponseNotFound,
    SessionLocked,
    SessionLost,
    TooLarge,
    TranslatorUnavailable,
    VersionMismatch,
)
from antiphon_edge.operations import parameters as p
from antiphon_edge.operations.descriptions import DESCRIPTIONS

Errors = tuple[type[AntiphonError], ...]

_BODY: Errors = (InvalidRequest, TooLarge)
_ENGINE: Errors = (
    ModelNotFound,
    TranslatorUnavailable,
    EngineUnavailable,
    EngineOverloaded,
    EngineTimeout,
    EngineFault,
    EngineMisconfigured,
)
_INPUT: Errors = (
    *_BODY,
    PreviousResponseNotFound,
    PreviousResponseNotReady,
    ContextLengthExceeded,
    ItemNotFound,
    ConversationNotFound,
    NotFound,
    ChainTooLong,
    *_ENGINE,
)
_TURN: Errors = (*_INPUT, SessionLocked, SessionLost, IdempotencyMismatch, LimitExceeded)
_RESPONSE: Errors = (ResponseNotFound,)
_PAGE: Errors = (InvalidRequest, ResponseNotFound)
_CONVERSATION: Errors = (InvalidRequest, ConversationNotFound)
_ITEM: Errors = (*_CONVERSATION, ItemNotFound, LimitExceeded)


class Access(Enum):
    """The callers that need no credential for an operation."""

    KEY = auto()  # nobody
    OPEN = auto()  # everybody: probes and readers of the documentation have no key
    MODELS = auto()  # everybody with the setting models_open; the NIM Operator reads models without a key
    METRICS = auto()  # everybody with the setting metrics.open


@dataclass(frozen=True, slots=True)
class Operation:
    """A method on a path: its route, its checks and its documentation.

    `body`, `answer` and `events` name the schemas of the request body, the answer, and each frame of a stream that can
    be the answer instead. `errors` lists only errors that not every route has (ANYWHERE). `pattern` is the path for the
    router, if a parameter may have slashes.
    """

    name: str
    method: str
    path: str
    summary: str
    answer: str = ""
    errors: Errors = ()
    body: str | None = None
    body_needed: bool = True
    events: str | None = None
    parameters: tuple[p.Parameter, ...] = ()
    media_type: str = "application/json"
    not_ready: bool = False
    """Whether 503 has the same body as 200."""
    upgrades: bool = False
    """Whether the route can also open a WebSocket."""
    pattern: str = ""
    access: Access = Access.KEY
    generates: bool = False
    """Whether a model generates, so that the request counts as a turn."""
    cancels: bool = False
    """Whether it ends work, and so is never rejected by a rate limit."""
    allows_head: bool = False

    @property
    def description(self) -> str:
        return DESCRIPTIONS.get(self.name, "")

    @property
    def tag(self) -> str:
        first = self.path.removeprefix("/v1/").strip("/").split("/")[0]
        return first if self.path.startswith("/v1/") else "documentation"


_RESPONSES = "/v1/responses"
_ONE = _RESPONSES + "/{id}"
_CONVERSATIONS = "/v1/conversations"
_TALK = _CONVERSATIONS + "/{id}"
_ITEMS = _TALK + "/items"
_PROMPTS = "/v1/prompts"
_PROMPT = _PROMPTS + "/{id}"
_CREATING = (p.IDEMPOTENCY_KEY, p.SESSION)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "createResponse",
        "POST",
        _RESPONSES,
        "Create a response",
        "Response",
        _TURN,
        body="CreateRequest",
        events="StreamFrame",
        parameters=_CREATING,
        generates=True,
    ),
    Operation(
        "listResponses",
        "GET",
        _RESPONSES,
        "List the responses of a session or conversation, or open a WebSocket to create responses",
        "ResponseList",
        errors=(InvalidRequest, ConversationNotFound),
        parameters=(p.SESSION, p.OF_SESSION, p.OF_CONVERSATION, p.ITEM_LIMIT, p.ORDER, p.CURSOR),
        upgrades=True,
    ),
    Operation(
        "countInputTokens",
        "POST",
        _RESPONSES + "/input_tokens",
        "Count the tokens of a prompt",
        "InputTokens",
        _INPUT,
        parameters=(p.SESSION,),
        body="CountRequest",
    ),
    Operation(
        "compactConversation",
        "POST",
        _RESPONSES + "/compact",
        "Compact a conversation into the input of the next request",
        "Compaction",
        _INPUT,
        body="CompactRequest",
        generates=True,
    ),
    Operation(
        "getResponse",
        "GET",
        _ONE,
        "Get a response, or its events",
        "Response",
        (*_PAGE, LogNotFound),
        events="StreamFrame",
        parameters=(p.RESPONSE_ID, p.STREAM, p.STARTING_AFTER, p.INCLUDE_SEALED),
    ),
    Operation(
        "deleteResponse",
        "DELETE",
        _ONE,
        "Delete a response",
        "DeletedResponse",
        _RESPONSE,
        parameters=(p.RESPONSE_ID,),
    ),
    Operation(
        "cancelResponse",
        "POST",
        _ONE + "/cancel",
        "Cancel a background response",
        "Response",
        _PAGE,
        parameters=(p.RESPONSE_ID,),
        cancels=True,
    ),
    Operation(
        "listInputItems",
        "GET",
        _ONE + "/input_items",
        "List the input items of a response",
        "ItemList",
        _PAGE,
        parameters=(p.RESPONSE_ID, *p.PAGE, p.INCLUDE_SEALED),
    ),
    Operation(
        "getTree",
        "GET",
        _ONE + "/tree",
        "List the descendants of a response",
        "NodeList",
        (*_PAGE, LimitExceeded),
        parameters=(p.RESPONSE_ID, p.FROM_ROOT, p.TREE_LIMIT, p.CURSOR),
    ),
    *(
        Operation(
            f"list{relation.capitalize()}",
            "GET",
            f"{_ONE}/{relation}",
            f"List the {relation} of a response",
            "NodeList",
            errors,
            parameters=(p.RESPONSE_ID, p.NODE_LIMIT, p.CURSOR),
        )
        for relation, errors in (("children", _PAGE), ("siblings", _PAGE), ("leaves", (*_PAGE, LimitExceeded)))
    ),
    Operation(
        "getChain",
        "GET",
        _ONE + "/chain",
        "Get all responses from the root of the tree to this one",
        "Chain",
        (*_PAGE, LimitExceeded),
        parameters=(p.RESPONSE_ID,),
    ),
    Operation(
        "explainCache",
        "GET",
        _ONE + "/cache",
        "Explain what of the prompt of a response was in the engine's cache",
        "ResponseCache",
        (*_PAGE, PreviousResponseNotReady, ChainTooLong, *_ENGINE),
        parameters=(p.RESPONSE_ID, p.COMPARE),
    ),
    Operation(
        "forkSession",
        "POST",
        "/v1/sessions/{id}/fork",
        "Create a session with the history of another",
        "Session",
        (
            *_BODY,
            NotFound,
            ConversationNotFound,
            ResponseNotFound,
            PreviousResponseNotReady,
            SessionLocked,
            AlreadyExists,
            LimitExceeded,
        ),
        body="ForkSession",
        body_needed=False,
        parameters=(p.SESSION_ID,),
    ),
    Operation(
        "createConversation",
        "POST",
        _CONVERSATIONS,
        "Create a conversation",
        "Conversation",
        (*_BODY, ItemNotFound, IdempotencyMismatch),
        body="CreateConversation",
        body_needed=False,
        parameters=(p.IDEMPOTENCY_KEY,),
    ),
    Operation(
        "getConversation",
        "GET",
        _TALK,
        "Get a conversation",
        "Conversation",
        (ConversationNotFound,),
        parameters=(p.CONVERSATION_ID,),
    ),
    Operation(
        "updateConversation",
        "POST",
        _TALK,
        "Replace the metadata of a conversation",
        "Conversation",
        (*_BODY, ConversationNotFound),
        body="UpdateConversation",
        parameters=(p.CONVERSATION_ID,),
    ),
    Operation(
        "deleteConversation",
        "DELETE",
        _TALK,
        "Delete a conversation",
        "DeletedConversation",
        (ConversationNotFound, SessionLocked),
        parameters=(p.CONVERSATION_ID,),
    ),
    Operation(
        "addItems",
        "POST",
        _ITEMS,
        "Add items to a conversation",
        "ItemList",
        (*_BODY, ConversationNotFound, ItemNotFound, SessionLocked, IdempotencyMismatch, LimitExceeded),
        body="AddItems",
        parameters=(p.CONVERSATION_ID, p.INCLUDE, p.IDEMPOTENCY_KEY),
    ),
    Operation(
        "listItems",
        "GET",
        _ITEMS,
        "List the items of a conversation",
        "ItemList",
        (*_CONVERSATION, LimitExceeded),
        parameters=(p.CONVERSATION_ID, *p.PAGE, p.INCLUDE),
    ),
    Operation(
        "getItem",
        "GET",
        _ITEMS + "/{item_id}",
        "Get an item of a conversation",
        "StoredItem",
        _ITEM,
        parameters=(p.CONVERSATION_ID, p.ITEM_ID, p.INCLUDE),
    ),
    Operation(
        "deleteItem",
        "DELETE",
        _ITEMS + "/{item_id}",
        "Delete an item from a conversation",
        "Conversation",
        (*_ITEM, SessionLocked),
        parameters=(p.CONVERSATION_ID, p.ITEM_ID),
    ),
    Operation(
        "listApprovals",
        "GET",
        "/v1/approvals",
        "List the calls that wait for an approval",
        "ApprovalList",
        (InvalidRequest,),
        parameters=(p.ITEM_LIMIT, p.ORDER, p.CURSOR),
    ),
    Operation(
        "createPrompt",
        "POST",
        _PROMPTS,
        "Store a prompt",
        "Prompt",
        (*_BODY, IdempotencyMismatch),
        body="PutPrompt",
        parameters=(p.IDEMPOTENCY_KEY,),
    ),
    Operation(
        "listPrompts",
        "GET",
        _PROMPTS,
        "List prompts",
        "PromptList",
        (InvalidRequest,),
        parameters=(p.ITEM_LIMIT, p.ORDER, p.AFTER_PROMPT),
    ),
    Operation(
        "getPrompt",
        "GET",
        _PROMPT,
        "Get a version of a prompt",
        "Prompt",
        (InvalidRequest, NotFound),
        parameters=(p.PROMPT_ID, p.PROMPT_VERSION),
    ),
    Operation(
        "addPromptVersion",
        "POST",
        _PROMPT + "/versions",
        "Add a version to a prompt",
        "Prompt",
        (*_BODY, NotFound, VersionMismatch),
        body="PutPrompt",
        parameters=(p.PROMPT_ID,),
    ),
    Operation(
        "deletePrompt",
        "DELETE",
        _PROMPT,
        "Delete a prompt with all its versions",
        "DeletedPrompt",
        (NotFound,),
        parameters=(p.PROMPT_ID,),
    ),
    Operation(
        "createChatCompletion",
        "POST",
        "/v1/chat/completions",
        "Create a chat completion",
        "ChatCompletion",
        (*_BODY, ContextLengthExceeded, *_ENGINE),
        body="ChatRequest",
        events="ChatFrame",
        generates=True,
    ),
    Operation(
        "listModels",
        "GET",
        "/v1/models",
        "List the models",
        "ModelList",
        (TranslatorUnavailable,),
        access=Access.MODELS,
        allows_head=True,
    ),
    Operation(
        "getModel",
        "GET",
        "/v1/models/{id}",
        "Get a model",
        "Model",
        (ModelNotFound, TranslatorUnavailable),
        parameters=(p.MODEL_ID,),
        pattern="/v1/models/{id:.+}",
        access=Access.MODELS,
        allows_head=True,
    ),
    Operation("live", "GET", "/v1/health/live", "Liveness probe", "Health", access=Access.OPEN, allows_head=True),
    Operation(
        "ready",
        "GET",
        "/v1/health/ready",
        "Readiness probe",
        "Health",
        not_ready=True,
        access=Access.OPEN,
        allows_head=True,
    ),
    Operation(
        "getMetrics",
        "GET",
        "/v1/metrics",
        "Metrics of this process, for Prometheus",
        media_type="text/plain",
        access=Access.METRICS,
        allows_head=True,
    ),
    Operation(
        "getMetadata",
        "GET",
        "/v1/metadata",
        "The deployment, as NIM shows it",
        "Metadata",
        (TranslatorUnavailable,),
        access=Access.MODELS,
        allows_head=True,
    ),
    Operation("getVersion", "GET", "/v1/version", "The release", "Version", access=Access.OPEN, allows_head=True),
    Operation("getDocument", "GET", "/openapi.json", "This document", access=Access.OPEN),
    Operation("getPage", "GET", "/docs", "This document as a page", media_type="text/html", access=Access.OPEN),
)

CONSOLE = "/console"
PAGES: tuple[Operation, ...] = (
    Operation("getConsole", "GET", CONSOLE, "The console", access=Access.OPEN, allows_head=True),
    Operation("redirectToConsole", "GET", CONSOLE + "/", "The console", access=Access.OPEN, allows_head=True),
    Operation(
        "getConsoleFile",
        "GET",
        CONSOLE + "/{version}/{path}",
        "A file of the console",
        pattern=CONSOLE + "/{version}/{path:.+}",
        access=Access.OPEN,
        allows_head=True,
    ),
)
"""Operations that are no part of the API. The files of the console have no data."""
