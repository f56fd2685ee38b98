"""Settings of the edge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from antiphon_core.config import SettingsError
from antiphon_core.limits import EVENT_LOG_LINGER_MS_MAX, LEASE_WAIT_MS_MAX, SILENCE_MS_MIN
from antiphon_core.rpc.credentials import ClientCredentials
from antiphon_edge.access_settings import AccessSettings

SEALED_TTL_S = 30 * 86_400  # as long as responses are kept by default


@dataclass(frozen=True, slots=True)
class EdgeSettings(AccessSettings):
    store: str = field(
        default="",
        metadata={"doc": "gRPC target of the store, such as dns:///store:50051; empty uses the one in this process."},
    )
    store_token_file: Path | None = field(
        default=None,
        metadata={
            "doc": "File with the token that is sent to the store, and nothing else. Read again when it changes."
        },
    )
    store_tls_ca_file: Path | None = field(
        default=None, metadata={"doc": "Authorities (PEM) of the store's certificate; turns TLS on."}
    )
    store_tls_cert_file: Path | None = field(
        default=None, metadata={"doc": "Certificate (PEM) that is shown to the store. Read once."}
    )
    store_tls_key_file: Path | None = field(default=None, metadata={"doc": "Private key (PEM) of store_tls_cert_file."})
    translator: str = field(
        default="",
        metadata={"doc": "gRPC target of the translator; empty uses the one in this process."},
    )
    translator_token_file: Path | None = field(
        default=None,
        metadata={
            "doc": "File with the token that is sent to the translator, and nothing else. Read again when it changes."
        },
    )
    translator_tls_ca_file: Path | None = field(
        default=None, metadata={"doc": "Authorities (PEM) of the translator's certificate; turns TLS on."}
    )
    translator_tls_cert_file: Path | None = field(
        default=None, metadata={"doc": "Certificate (PEM) that is shown to the translator. Read once."}
    )
    translator_tls_key_file: Path | None = field(
        default=None, metadata={"doc": "Private key (PEM) of translator_tls_cert_file."}
    )
    translator_transport: Literal["lean", "grpc"] = field(
        default="lean",
        metadata={
            "doc": "How generations come from another process: lean (the gateway's own HTTP/2 reader, a third of the "
            "processor time) or grpc (grpc.aio). Targets other than host:port and dns:///host:port always use grpc."
        },
    )
    translator_silence_s: float = field(
        default=5.0,
        metadata={
            "doc": "Seconds without any sign of life after which a translator in another process is lost, and another "
            "one goes on; 0: only its connection tells."
        },
    )
    restart_wait_s: float = field(
        default=10.0,
        metadata={
            "doc": "Seconds for which a store or translator that cannot be reached is waited for: as long as a restart "
            "takes. One that has been away for longer, or is connected and silent, is told as unavailable at once."
        },
    )
    sealing_keys_file: Path | None = field(
        default=None,
        metadata={
            "doc": "File with the keys that reasoning, contexts and compactions are sealed with for clients, a line "
            "each: ID and 64 hexadecimal digits, the newest first. Read again when it changes. Without it only this "
            "process can open what it sealed."
        },
    )
    sealed_ttl_s: int = field(
        default=SEALED_TTL_S, metadata={"doc": "Seconds for which what was sealed can be brought back."}
    )
    conversation_wait_ms: int = field(
        default=0,
        metadata={
            "doc": "Milliseconds, 60,000 at most, that a turn waits for one that runs in its conversation; then "
            "it is refused as `conversation_locked`."
        },
    )
    keep_alive_s: float = field(
        default=15.0, metadata={"doc": "Seconds of silence on a stream after which a comment is sent."}
    )
    hosted_tools: Literal["refuse", "drop"] = field(
        default="refuse",
        metadata={
            "doc": "Requests with hosted tools (web_search, file_search, mcp and others, which no server here runs): "
            "refuse answers 400, drop leaves the tools out and names them in `dropped_tools` of the response."
        },
    )
    websocket_max_s: float = field(
        default=3_600.0,
        metadata={"doc": "Seconds after which a WebSocket is closed, behind the responses that run on it."},
    )
    websocket_lanes: int = field(
        default=16,
        metadata={
            "doc": "Responses that run at once on one WebSocket, each on a lane of its own (`stream_id`); others wait. "
            "All but one hold a stream slot of their tenant."
        },
    )
    event_log_linger_ms: int = field(
        default=50,
        metadata={
            "doc": "Milliseconds, 1,000 at most, that events of a turn under an idempotency key wait for more before "
            "they are appended to its event log together."
        },
    )
    console: bool = field(
        default=True,
        metadata={
            "doc": "Whether /console serves the web console. Its page is for all, its data for keys as any other."
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
        self.credentials_for("store")
        self.credentials_for("translator")
        if not 0 <= self.conversation_wait_ms <= LEASE_WAIT_MS_MAX:
            raise SettingsError(f"conversation_wait_ms must be 0 to {LEASE_WAIT_MS_MAX:,}.")
        if 0 < self.translator_silence_s < SILENCE_MS_MIN / 1000:
            raise SettingsError(f"translator_silence_s must be 0, or {SILENCE_MS_MIN / 1000:g} or more.")
        if self.websocket_lanes < 1:
            raise SettingsError("A WebSocket needs at least one lane.")
        _require_linger(self.event_log_linger_ms)
        _require_trace_url(self.console_trace_url)

    def credentials_for(self, peer: Literal["store", "translator"]) -> ClientCredentials:
        """The edge's credentials for a peer. SettingsError: parts of them need each other."""
        names = ("token_file", "tls_ca_file", "tls_cert_file", "tls_key_file")
        try:
            return ClientCredentials(**{name: getattr(self, f"{peer}_{name}") for name in names})
        except SettingsError as error:
            raise SettingsError(f"The edge's credentials for the {peer}: {error}") from error

    def warnings(self) -> Iterator[tuple[str, str]]:
        yield from self.access_warnings()


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    slots: int = field(
        default=64,
        metadata={"doc": "Background responses that run at the same time in one worker, of all tenants together."},
    )
    event_log_linger_ms: int = field(
        default=50,
        metadata={
            "doc": "Milliseconds, 1,000 at most, that events of a background response wait for more before they are "
            "appended to its event log together."
        },
    )
    drain_s: float = field(
        default=30.0,
        metadata={"doc": "Seconds that running responses get after SIGTERM; another worker goes on with the others."},
    )

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise SettingsError("A worker needs at least one slot.")
        _require_linger(self.event_log_linger_ms)


def _require_linger(linger_ms: int) -> None:
    if not 0 <= linger_ms <= EVENT_LOG_LINGER_MS_MAX:
        raise SettingsError(f"event_log_linger_ms must be 0 to {EVENT_LOG_LINGER_MS_MAX:,}.")


def _require_trace_url(url: str) -> None:
    """It becomes a link in a page, so it must be one that a browser opens and does not run."""
    if url and not (url.startswith(("https://", "http://")) and "{trace_id}" in url):
        raise SettingsError("console_trace_url must begin with https:// or http:// and have {trace_id} in it.")
