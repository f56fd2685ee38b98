"""The names of spans and of their attributes. Traces have no other data of a request.

Attributes are those of OpenTelemetry's semantic conventions; those for generative AI are not stable yet. They are
pinned here as of semantic-conventions 0.66 (`opentelemetry-semantic-conventions==0.66b2`, against which a test checks
them), and change in this module only. Content attributes (`gen_ai.input.messages` and the like) are not among them.
"""

from __future__ import annotations

from enum import Enum

# ---- HTTP and RPCs ----
HTTP_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"
URL_SCHEME = "url.scheme"
RPC_SYSTEM = "rpc.system.name"
RPC_METHOD = "rpc.method"
RPC_STATUS = "rpc.response.status_code"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"

# ---- Generative AI ----
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_ID = "gen_ai.response.id"
CONVERSATION_ID = "gen_ai.conversation.id"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
TOOL_NAME = "gen_ai.tool.name"

# ---- Antiphon's own ----
REQUEST_ID = "antiphon.request.id"
DELIVERY = "antiphon.turn.delivery"
STATUS = "antiphon.response.status"
ATTEMPT = "antiphon.job.attempt"
TOOL_SERVER = "antiphon.tool.server"
TOOL_OUTCOME = "antiphon.tool.outcome"

CHAT = "chat"
"""The operation of every turn and of every generation. Their spans are named after it and the model."""
EXECUTE_TOOL = "execute_tool"
TURN_PROVIDER = "antiphon"
GRPC = "grpc"

JOB = "process responses"
"""A worker's attempt at a background response."""
PROMPT = "build prompt"

ATTRIBUTES = frozenset(
    value for name, value in list(globals().items()) if name.isupper() and isinstance(value, str) and "." in value
)
"""All attributes that a span may have."""


class SpanKind(Enum):
    """OpenTelemetry's kinds of spans."""

    SERVER = "server"
    CLIENT = "client"
    CONSUMER = "consumer"
    INTERNAL = "internal"


def execute_tool(tool: str) -> str:
    """The name of the span of a call of an operator's tool. Other calls are named without their tool."""
    return f"{EXECUTE_TOOL} {tool}"
