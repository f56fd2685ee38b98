"""Settings that edges and workers share: the store, the translator, the tools service, and the sealing keys."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import ClassVar, Literal

from antiphon_core.config import ENV_PREFIX, SettingsError
from antiphon_core.limits import RESTART_WAIT_S, SILENCE_MS_MAX, SILENCE_MS_MIN
from antiphon_core.rpc.credentials import ClientCredentials
from antiphon_edge.tools.limits import DEFAULT_LIMITS, ToolLimits

Peer = Literal["store", "translator", "tools"]
SEALED_TTL_S = 30 * 86_400  # as long as responses are kept by default


@dataclass(frozen=True)  # no slots: EdgeSettings has two bases, of which only one may have slots
class TurnSettings:
    """The base of EdgeSettings and WorkerSettings. A subclass that defines __post_init__ must call this one in it."""

    SECTION: ClassVar[str]

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
        default=None,
        metadata={
            "doc": "CA certificates (PEM) that verify the store's certificate; turns TLS on. "
            "Read again when it changes."
        },
    )
    store_tls_cert_file: Path | None = field(
        default=None, metadata={"doc": "Client certificate (PEM) for the store (mTLS). Read again when it changes."}
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
        default=None,
        metadata={
            "doc": "CA certificates (PEM) that verify the translator's certificate; turns TLS on. "
            "Read again when it changes."
        },
    )
    translator_tls_cert_file: Path | None = field(
        default=None,
        metadata={"doc": "Client certificate (PEM) for the translator (mTLS). Read again when it changes."},
    )
    translator_tls_key_file: Path | None = field(
        default=None, metadata={"doc": "Private key (PEM) of translator_tls_cert_file."}
    )
    translator_silence_s: float = field(
        default=5.0,
        metadata={
            "doc": "Seconds without an event or heartbeat after which a translator in another process is lost, and "
            "another one continues the generation; with 0 only a broken connection counts."
        },
    )
    tools: str = field(
        default="",
        metadata={
            "doc": "gRPC target of the tools service. Empty uses the one in this process, if it has tool servers: "
            "tools.servers or tools.client_hosts."
        },
    )
    tools_token_file: Path | None = field(
        default=None,
        metadata={
            "doc": "File with the token that is sent to the tools service, and nothing else. Read again when it "
            "changes."
        },
    )
    tools_tls_ca_file: Path | None = field(
        default=None,
        metadata={
            "doc": "CA certificates (PEM) that verify the certificate of the tools service; turns TLS on. "
            "Read again when it changes."
        },
    )
    tools_tls_cert_file: Path | None = field(
        default=None,
        metadata={"doc": "Client certificate (PEM) for the tools service (mTLS). Read again when it changes."},
    )
    tools_tls_key_file: Path | None = field(default=None, metadata={"doc": "Private key (PEM) of tools_tls_cert_file."})
    tool_rounds: int = field(
        default=DEFAULT_LIMITS.rounds,
        metadata={"doc": "Times that a response may call tools of servers and let the model go on; then it ends."},
    )
    tool_calls: int = field(
        default=DEFAULT_LIMITS.calls,
        metadata={"doc": "Calls of tools of servers in one response, also where a request has no `max_tool_calls`."},
    )
    tool_calls_at_once: int = field(
        default=DEFAULT_LIMITS.parallel,
        metadata={
            "doc": "Calls of one response that run at once; others wait. With `parallel_tool_calls` false it is one."
        },
    )
    tool_time_s: float = field(
        default=DEFAULT_LIMITS.time_s,
        metadata={
            "doc": "Seconds for which a response may call tools of servers. Then it ends as `incomplete`, with the "
            "reason `tool_time`. A call that runs at this moment is broken off, and its outcome is unknown."
        },
    )
    restart_wait_s: float = field(
        default=RESTART_WAIT_S,
        metadata={
            "doc": "Seconds for which calls wait for a store or translator that cannot be reached: as long as a "
            "restart takes. Calls to one that has been away for longer, or is connected and silent, fail as "
            "unavailable."
        },
    )
    sealing_keys_file: Path | None = field(
        default=None,
        metadata={
            "doc": "File with the keys that seal reasoning, contexts and compactions for clients: one on each line, "
            "as ID and 64 hexadecimal digits, the newest first. Read again when it changes. Without it, only the "
            "process that sealed content can open it."
        },
    )
    sealed_ttl_s: int = field(
        default=SEALED_TTL_S, metadata={"doc": "Seconds after sealing for which clients can bring sealed content back."}
    )

    cache_salt_keys_file: Path | None = field(
        default=None,
        metadata={
            "doc": 'File with the secret for models whose profile has kv_isolation = "tenant", in the form of '
            "sealing_keys_file, and the same for all edges and workers. Its first line counts; a new first line makes "
            "all cached prompts unreachable. Read again when it changes."
        },
    )

    def __post_init__(self) -> None:
        least_s, most_s = SILENCE_MS_MIN / 1000, SILENCE_MS_MAX / 1000
        if self.translator_silence_s and not least_s <= self.translator_silence_s <= most_s:
            raise SettingsError(f"translator_silence_s must be 0, or {least_s:g} to {most_s:g}.")
        for name in ("tool_rounds", "tool_calls", "tool_calls_at_once"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{self.variable(name)} must be 1 or more, but is {getattr(self, name)}.")
        if self.tool_time_s <= 0:
            raise SettingsError(f"{self.variable('tool_time_s')} must be more than 0.")
        self.credentials_for("store")
        self.credentials_for("translator")
        self.credentials_for("tools")

    @property
    def tool_limits(self) -> ToolLimits:
        """The limits of responses that call tools of servers."""
        return ToolLimits(self.tool_rounds, self.tool_calls, self.tool_calls_at_once, self.tool_time_s)

    def credentials_for(self, peer: Peer) -> ClientCredentials:
        """The client credentials for a peer. SettingsError: some are set without others that they need."""
        names = ("token_file", "tls_ca_file", "tls_cert_file", "tls_key_file")
        try:
            files = {name: getattr(self, f"{peer}_{name}") for name in names}
            return ClientCredentials(**files, settings_prefix=f"{peer}_")
        except SettingsError as error:
            raise SettingsError(f"The {self.SECTION}'s credentials for the {peer}: {error}") from error

    @classmethod
    def variable(cls, name: str) -> str:
        """The environment variable of a setting."""
        return f"{ENV_PREFIX}{cls.SECTION}_{name}".upper()


def of_peer(peer: Peer) -> tuple[str, ...]:
    """The names of all settings about a peer."""
    return tuple(each.name for each in fields(TurnSettings) if each.name.partition("_")[0] == peer)
