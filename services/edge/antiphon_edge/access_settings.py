"""Settings of access to the edge: its address, authentication, quotas, timeouts and limits of connections.

An edge on an address that other machines reach authenticates its callers, by API keys or through trusted proxies.
Without authentication it starts only on loopback, or with `insecure`, for networks that authenticate by themselves. The
gRPC services have the same rule (antiphon_core.rpc.settings).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

from antiphon_core.config import Port, SettingsError
from antiphon_core.limits import BODY_BYTES_MAX
from antiphon_core.rpc.addresses import is_loopback
from antiphon_core.rpc.watched import GRACE_S

Network = IPv4Network | IPv6Network

STREAM_SLOT_TTL_S = 30.0
LONG_BYTES_PER_TENANT = 16 * 2**20
READERS_PER_RESPONSE = 32
TIMEOUT_S_MAX = 3_600.0
STREAM_SLOT_TTL_S_MIN, STREAM_SLOT_TTL_S_MAX = 1.0, 3_600.0
SEND_BUFFER_BYTES_MIN = 4 * 2**10
_MAY_BE_ZERO = (
    "requests_per_minute",
    "tokens_per_minute",
    "streams_per_tenant",
    "turns_bytes_max",
    "long_bytes_per_tenant",
    "readers_per_response",
    "turns_max",
    "shed_lag_ms",
    "memory_limit_bytes",
)


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """The part of EdgeSettings that concerns access. A subclass that defines __post_init__ must call this one in it."""

    host: str = field(
        default="127.0.0.1",
        metadata={
            "doc": "Address to listen on. An address that other machines reach needs keys_file or trusted_proxies."
        },
    )
    port: Port = field(
        default=8000, metadata={"doc": "Port to listen on; 0 lets the system choose.", "alias": "NIM_HTTP_API_PORT"}
    )
    keys_file: Path | None = field(
        default=None,
        metadata={
            "doc": "File of the callers' API keys, as 'antiphon keys' writes it; turns authentication on. Read again "
            "when it changes."
        },
    )
    keys_pepper_file: Path | None = field(
        default=None,
        metadata={
            "doc": "File with the peppers, the secrets under which keys_file keeps the HMACs of API keys: one on each "
            "line, the newest first. Read again when it changes."
        },
    )
    secrets_grace_s: float = field(
        default=GRACE_S,
        metadata={
            "doc": "Seconds for which the keys that were read last stay valid after keys_file, keys_pepper_file or "
            "sealing_keys_file became unusable: deleted, emptied, malformed, or open to other users. Then requests "
            "that need these keys are rejected until the file is corrected."
        },
    )
    trusted_proxies: tuple[str, ...] = field(
        default=(),
        metadata={
            "doc": "Networks (CIDR, with commas between them) of proxies that authenticate clients by themselves and "
            "name the tenant in 'x-tenant-id'. From any other address that header is rejected."
        },
    )
    insecure: bool = field(
        default=False,
        metadata={
            "doc": "Whether the edge may run without authentication on any address, and answer requests with any "
            "'Host' header: for closed networks, and service meshes that authenticate."
        },
    )
    models_open: bool = field(
        default=False,
        metadata={
            "doc": "Whether callers without an API key may list the models (/v1/models, /v1/metadata), as NIM allows. "
            "The NIM Operator lists them before it reports a NIMService as ready."
        },
    )
    requests_per_minute: int = field(
        default=0, metadata={"doc": "Requests that a tenant may send in a minute; 0 for no limit."}
    )
    tokens_per_minute: int = field(
        default=0,
        metadata={"doc": "Tokens, input and output, that a tenant's responses may take in a minute; 0 for no limit."},
    )
    streams_per_tenant: int = field(
        default=0,
        metadata={
            "doc": "Responses and streams that a tenant may have in progress at once; 0 for no limit. A background "
            "response counts while it is created or followed, not while it is queued or runs."
        },
    )
    long_bytes_per_tenant: int = field(
        default=LONG_BYTES_PER_TENANT,
        metadata={
            "doc": "Bytes of long requests and histories (over 256 KiB) that one process prepares at once for a "
            "tenant; 0 for no limit. More wait in line, and are rejected with 429 when sixteen times as many wait, or "
            "after 15 s. A larger one is prepared alone."
        },
    )
    readers_per_response: int = field(
        default=READERS_PER_RESPONSE,
        metadata={
            "doc": "Streams of the same stored or running response that one process sends at once; 0 for no limit. "
            "streams_per_tenant limits the streams of all responses."
        },
    )
    turns_max: int = field(
        default=1_000,
        metadata={
            "doc": "Turns that one process runs at once for callers that wait; 0 for no limit. When all are taken, a "
            "new turn is rejected with 503. A turn of a tenant that runs at least four times as many turns as are "
            "still free is rejected with 429."
        },
    )
    shed_lag_ms: int = field(
        default=500,
        metadata={
            "doc": "Milliseconds by which the event loop may be late, three times in a row, before new turns are "
            "rejected with 503. 0 for no limit."
        },
    )
    turns_bytes_max: int = field(
        default=0,
        metadata={
            "doc": "Bytes of requests, and of the histories that they continue, that turns in progress may hold in one "
            "process, which takes about three times as much memory for them. WebSockets may keep twice as many bytes "
            "of responses that are not stored. A tenant may have four times what is still free. 0 for a tenth of the "
            "process's memory."
        },
    )
    memory_limit_bytes: int = field(
        default=0,
        metadata={
            "doc": "Memory of the process: at 90 % of it new turns are rejected with 503. 0 for the limit of the "
            "container, or the machine's memory."
        },
    )
    shared_limits: bool = field(
        default=True,
        metadata={
            "doc": "Whether the store counts requests_per_minute, tokens_per_minute and streams_per_tenant for all "
            "edges together. Otherwise each edge enforces an equal part of them by itself, and the tokens of "
            "background responses are not counted."
        },
    )
    replicas: int = field(
        default=1,
        metadata={
            "doc": "Number of edges. Each enforces its part of the limits by itself when shared_limits is off, and "
            "while the store does not answer."
        },
    )
    stream_slot_ttl_s: float = field(
        default=STREAM_SLOT_TTL_S,
        metadata={
            "doc": "Seconds after which the responses and streams of an edge that died no longer count towards "
            "streams_per_tenant."
        },
    )
    cors_origins: tuple[str, ...] = field(
        default=(),
        metadata={
            "doc": "Origins, such as https://app.example.com, whose web pages may call, with commas between them; * "
            "for all. Pages of other hosts cannot read answers. Without authentication, their requests that would "
            "change something are rejected, too.",
            "alias": "NIM_CORS_ALLOW_ORIGINS",
        },
    )
    read_timeout_s: float = field(
        default=60.0,
        metadata={
            "doc": "Seconds after which an incomplete request is given up. For its head they begin with the connection "
            "if the request is the first one, and with the first bytes of the head for each later one. For its body "
            "they begin again with each piece."
        },
    )
    write_timeout_s: float = field(
        default=15.0,
        metadata={
            "doc": "Seconds after which a client is disconnected that reads nothing of what is sent, or so little that "
            "the buffer of its stream stays full."
        },
    )
    connections_max: int = field(
        default=16_384,
        metadata={
            "doc": "Connections that are open at once, and at most 64 fewer than the files that the process may open. "
            "When all are taken, an idle connection is closed for a new one."
        },
    )
    connections_per_peer: int = field(
        default=2_048,
        metadata={
            "doc": "Connections of one address at once, half of connections_max at most. trusted_proxies have no such "
            "limit."
        },
    )
    bodies_bytes_max: int = field(
        default=256 * 2**20,
        metadata={
            "doc": "Bytes of bodies, with their zstd windows, and WebSocket messages that are received and not parsed "
            "yet, in total."
        },
    )
    bodies_bytes_per_tenant: int = field(
        default=64 * 2**20,
        metadata={"doc": "Bytes of bodies_bytes_max that one tenant may hold: six bodies of the largest size."},
    )
    send_buffer_bytes: int = field(
        default=64 * 2**10, metadata={"doc": "Bytes of a stream that the kernel keeps for a client that reads slowly."}
    )

    def __post_init__(self) -> None:
        if (self.keys_file is None) != (self.keys_pepper_file is None):
            raise SettingsError(f"{_variable('keys_file')} and {_variable('keys_pepper_file')} need each other.")
        self.networks()
        _check_origins(self.cors_origins)
        self._check_numbers()
        if not (self.knows_callers or self.insecure or is_loopback(self.host)):
            raise SettingsError(
                f"The edge would listen on {self.host} and answer every client. Set {_variable('keys_file')} (API "
                f"keys, made by 'antiphon keys create') or {_variable('trusted_proxies')} (proxies that authenticate), "
                f"listen on 127.0.0.1, or set {_variable('insecure')} where the network authenticates."
            )

    @property
    def knows_callers(self) -> bool:
        return self.keys_file is not None or bool(self.trusted_proxies)

    def networks(self) -> tuple[Network, ...]:
        return tuple(_network(text) for text in self.trusted_proxies)

    def access(self) -> str:
        """The ways of authentication in a few words, for the banner."""
        ways = [("API keys", self.keys_file is not None), ("trusted proxies", bool(self.trusted_proxies))]
        return " and ".join(name for name, used in ways if used) or "no authentication"

    def access_warnings(self) -> Iterator[tuple[str, str]]:
        """Yields a (message, explanation) for each setting of access that is valid but unsafe."""
        if not (self.knows_callers or is_loopback(self.host)):
            yield (
                f"The edge listens on {self.host}, and requests are not authenticated.",
                "'insecure' is on: every client that reaches the port can use the models and read all stored responses "
                "of the default tenant. Expose the port only to a network that authenticates, or set keys_file.",
            )
        if any(network.prefixlen == 0 for network in self.networks()):
            yield (
                "The edge trusts every address to be a proxy that authenticates.",
                "Every client that reaches the port can name any tenant in 'x-tenant-id'. List the networks of your "
                "proxies only.",
            )

    def _check_numbers(self) -> None:
        least = dict.fromkeys(_MAY_BE_ZERO, 0) | {"replicas": 1}
        least |= {"connections_max": 1, "connections_per_peer": 1, "bodies_bytes_per_tenant": BODY_BYTES_MAX}
        least |= {"bodies_bytes_max": self.bodies_bytes_per_tenant}
        for name, low in {**least, "send_buffer_bytes": SEND_BUFFER_BYTES_MIN}.items():
            if getattr(self, name) < low:
                raise SettingsError(f"{_variable(name)} must be {low} or more, but is {getattr(self, name)}.")
        if not STREAM_SLOT_TTL_S_MIN <= self.stream_slot_ttl_s <= STREAM_SLOT_TTL_S_MAX:
            raise SettingsError(
                f"{_variable('stream_slot_ttl_s')} must be {STREAM_SLOT_TTL_S_MIN:g} to {STREAM_SLOT_TTL_S_MAX:g} "
                f"seconds, but is {self.stream_slot_ttl_s:g}."
            )
        for name in ("read_timeout_s", "write_timeout_s"):
            if not 0 < getattr(self, name) <= TIMEOUT_S_MAX:
                raise SettingsError(
                    f"{_variable(name)} must be more than 0 and at most {TIMEOUT_S_MAX:g} seconds, but is "
                    f"{getattr(self, name):g}."
                )


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise SettingsError(
            f"{_variable('trusted_proxies')} has {text!r}, which is no network such as 10.1.0.0/16: {error}."
        ) from error


def _check_origins(origins: tuple[str, ...]) -> None:
    for origin in origins:
        scheme, colon, host = origin.partition("://")
        if origin != "*" and not (colon and scheme and host and "/" not in host):
            raise SettingsError(
                f"{_variable('cors_origins')} has {origin!r}; an origin is a scheme and a host, such as "
                "https://app.example.com, without a path."
            )


def _variable(name: str) -> str:
    return f"ANTIPHON_EDGE_{name}".upper()
