"""The ways in which an exchange with an MCP server fails."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """Codes of JSON-RPC and of MCP."""

    SERVER = -32_000
    """Ours, for an answer that cannot be used."""
    UNKNOWN_OUTCOME = -32_001
    """Ours and the SDKs', for a request without an answer."""
    UNSUPPORTED_VERSION = -32_022
    METHOD_NOT_FOUND = -32_601


class McpFault(Exception):
    """The base class. `message` can be shown to the client and to the model."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ProtocolFault(McpFault):
    """The server answered with a JSON-RPC error, or with an answer that is unusable. `status` is the answer's."""

    def __init__(self, code: int, message: str, *, status: int = 200) -> None:
        super().__init__(code, message)
        self.status = status


class HttpFault(McpFault):
    """The server answered with an HTTP status. `code` is the status."""

    @property
    def status(self) -> int:
        return self.code


class NotSent(McpFault):
    """No byte of the request was written."""


class AnswerLost(McpFault):
    """The request was sent, or some of it, and no answer came."""


def unusable(why: str) -> ProtocolFault:
    """The fault of an answer that breaks the protocol. `why` continues "The tool server"."""
    return ProtocolFault(Code.SERVER, f"The tool server {why}.")
