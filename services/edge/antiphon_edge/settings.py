"""Settings of the edge and of the worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from antiphon_core.config import SettingsError
from antiphon_core.limits import EVENT_LOG_LINGER_MS_MAX, LEASE_WAIT_MS_MAX, REMEMBERED_LINEAGES_S
from antiphon_core.rpc.watched import GRACE_S
from antiphon_edge import turn_settings
from antiphon_edge.access_settings import AccessSettings
from antiphon_edge.tools.limits import DEFAULT_LIMITS
from antiphon_edge.turn_settings import TurnSettings


@dataclass(frozen=True, slots=True)
class EdgeSettings(TurnSettings, AccessSettings):
    """The settings of an edge."""

    SECTION = "edge"

    remembered_lineages_s: int = field(
        default=REMEMBERED_LINEAGES_S,
        metadata={
            "doc": "Seconds for which an edge remembers, in memory, the token ids of a response with `store: false`, "
            "and the endpoint that has its prompt cached. A request that resends the conversation then reuses both. "
            "0: not at all."
        },
    )
    conversation_wait_ms: int = field(
        default=0,
        metadata={
            "doc": "Milliseconds, 60,000 at most, that a turn waits for another turn in its conversation before it is "
            "rejected as `conversation_locked`."
        },
    )
    keep_alive_s: float = field(
        default=15.0, metadata={"doc": "Seconds of silence on a stream after which `keep_alive` is sent."}
    )
    keep_alive: Literal["comment", "event"] = field(
        default="comment",
        metadata={
            "doc": "What is sent on a silent stream of a response: a comment, which every client ignores, or the event "
            "`keepalive` of OpenAI, which also resets the idle timeout of Codex. Some SDKs reject that event."
        },
    )
    hosted_tools: Literal["refuse", "drop"] = field(
        default="refuse",
        metadata={
            "doc": "Requests with hosted tools that are not run here (web_search, file_search and others): "
            "refuse rejects them with 400, drop leaves the tools out and names them in `dropped_tools` of the response."
        },
    )
    web_search: bool = field(
        default=False,
        metadata={
            "doc": "Whether requests may search the web with the hosted tool web_search. The service of tools needs a "
            "provider then: `web_search` of its settings."
        },
    )
    websocket_max_s: float = field(
        default=3_600.0,
        metadata={"doc": "Seconds after which a WebSocket is closed, once the responses that run on it have ended."},
    )
    websocket_lanes: int = field(
        default=16,
        metadata={
            "doc": "Responses that run at once on one WebSocket, each on a lane of its own (`stream_id`); others wait. "
            "The connection holds one stream slot of its tenant, and each response beyond the first another one."
        },
    )
    event_log_linger_ms: int = field(
        default=50,
        metadata={
            "doc": "Milliseconds, 1,000 at most, for which the events of a turn with an idempotency key are collected "
            "before they are appended to its event log together."
        },
    )
    tool_finish_s: float = field(
        default=DEFAULT_LIMITS.finish_s,
        metadata={
            "doc": "Seconds for which calls of tools that were sent are awaited after their client has left, so that "
            "the record of the cancelled response has their results. Then they are broken off."
        },
    )
    console: bool = field(
        default=True,
        metadata={
            "doc": "Whether /console serves the web console. The page needs no API key; the requests that it makes do."
        },
    )
    console_trace_url: str = field(
        default="",
        metadata={
            "doc": "Where the console links to the trace of a request: a URL with {trace_id} in it, such as "
            "https://jaeger.example/trace/{trace_id}; empty for no links."
        },
    )
    drain_s: float = field(default=30.0, metadata={"doc": "Seconds that running requests get to end after SIGTERM."})

    def __post_init__(self) -> None:
        AccessSettings.__post_init__(self)
        TurnSettings.__post_init__(self)
        if not 0 <= self.conversation_wait_ms <= LEASE_WAIT_MS_MAX:
            raise SettingsError(f"conversation_wait_ms must be 0 to {LEASE_WAIT_MS_MAX:,}.")
        if self.remembered_lineages_s < 0:
            raise SettingsError("remembered_lineages_s must be 0 or more.")
        if self.keep_alive_s <= 0:
            raise SettingsError("keep_alive_s must be more than 0.")
        if self.websocket_lanes < 1:
            raise SettingsError("A WebSocket needs at least one lane.")
        if self.tool_finish_s < 0:
            raise SettingsError("tool_finish_s must be 0 or more.")
        _require_linger(self.event_log_linger_ms)
        _require_trace_url(self.console_trace_url)

    def warnings(self) -> Iterator[tuple[str, str]]:
        yield from self.access_warnings()


@dataclass(frozen=True, slots=True)
class WorkerSettings(TurnSettings):
    """The settings of a worker of background responses."""

    SECTION = "worker"

    secrets_grace_s: float = field(
        default=GRACE_S,
        metadata={
            "doc": "Seconds for which the keys that were read last stay valid after sealing_keys_file became unusable: "
            "deleted, emptied, malformed, or open to other users."
        },
    )
    memory_limit_bytes: int = field(
        default=0,
        metadata={
            "doc": "Memory of the process: at 80 % of it no more background responses are started. 0 for the limit of "
            "the container, or the machine's memory."
        },
    )
    tool_time_s: float = field(
        default=3_600.0,
        metadata={
            "doc": "Seconds for which a background response may call tools of servers, from each time that a worker "
            "takes it up. Then it ends as `incomplete`, with the reason `tool_time`."
        },
    )
    slots: int = field(
        default=64,
        metadata={"doc": "Background responses that run at the same time in one worker, of all tenants together."},
    )
    event_log_linger_ms: int = field(
        default=50,
        metadata={
            "doc": "Milliseconds, 1,000 at most, for which the events of a background response are collected before "
            "they are appended to its event log together."
        },
    )
    drain_s: float = field(
        default=30.0,
        metadata={"doc": "Seconds that running responses get to end after SIGTERM; another worker continues the rest."},
    )

    def __post_init__(self) -> None:
        TurnSettings.__post_init__(self)
        if self.memory_limit_bytes < 0:
            raise SettingsError(
                f"{self.variable('memory_limit_bytes')} must be 0 or more, but is {self.memory_limit_bytes}."
            )
        if self.slots < 1:
            raise SettingsError("A worker needs at least one slot.")
        _require_linger(self.event_log_linger_ms)

    def beside(self, edge: EdgeSettings) -> WorkerSettings:
        """The settings of a worker in the process of an edge: the edge's store, translator, keys and limit of memory
        replace those that are not set."""
        taken = {
            name: getattr(edge, name)
            for leader, names in _TAKEN_TOGETHER.items()
            if not getattr(self, leader)
            for name in names
        }
        return replace(self, **taken)


_TAKEN_TOGETHER = {
    "store": turn_settings.of_peer("store"),
    "translator": turn_settings.of_peer("translator"),
    "tools": turn_settings.of_peer("tools"),
    "sealing_keys_file": ("sealing_keys_file", "sealed_ttl_s", "secrets_grace_s"),
    "cache_salt_keys_file": ("cache_salt_keys_file",),
    "memory_limit_bytes": ("memory_limit_bytes",),
}
"""The groups of settings that a worker takes from its edge, each by the setting that the worker does not have."""


def _require_linger(linger_ms: int) -> None:
    if not 0 <= linger_ms <= EVENT_LOG_LINGER_MS_MAX:
        raise SettingsError(f"event_log_linger_ms must be 0 to {EVENT_LOG_LINGER_MS_MAX:,}.")


def _require_trace_url(url: str) -> None:
    """Rejects URLs that a browser would run instead of open: the URL becomes a link in a page."""
    if url and not (url.startswith(("https://", "http://")) and "{trace_id}" in url):
        raise SettingsError("console_trace_url must begin with https:// or http:// and have {trace_id} in it.")
