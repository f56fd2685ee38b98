"""Settings of every gRPC server: its address, authentication, TLS, and limits of requests.

A server on an address that other machines reach authenticates its callers, by tokens, certificates or both. Without
authentication it starts only on loopback, or with `insecure`, for networks that authenticate by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from antiphon_core.config import Port, SettingsError, require_bounds, setting
from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX, RPC_REQUESTS_BYTES_MAX
from antiphon_core.rpc.addresses import is_loopback
from antiphon_core.rpc.watched import GRACE_S


@dataclass(frozen=True, slots=True)
class RpcServerSettings:
    """The base class of a service's settings. A subclass that defines __post_init__ must call this one in it."""

    section: ClassVar[str]  # the section's name, for messages

    host: str = setting(
        "127.0.0.1",
        "Address to serve gRPC on. An address that other machines reach needs token_file or tls_client_ca_file.",
    )
    port: Port = setting(0, "Port to serve gRPC on; 0 lets the system choose.")
    token_file: Path | None = setting(
        None,
        "File of the callers' credentials, a line for each: NAME TOKEN TENANTS ROLES. TOKEN may be "
        "certificate:NAME, with a DNS name, or certificate:TYPE:NAME with the type dns, uri, email or ip; TENANTS is * "
        "or a list with commas; ROLES is a list of reader, writer, gateway and operator. Read again when it changes.",
    )
    tls_cert_file: Path | None = setting(None, "Certificate chain (PEM) to serve TLS with. Read again when it changes.")
    tls_key_file: Path | None = setting(None, "Private key (PEM) of tls_cert_file.")
    tls_client_ca_file: Path | None = setting(
        None,
        "Certificate authorities (PEM), one of which must have signed the certificate of a caller (mTLS). "
        "Without token_file, every such caller has all tenants and roles.",
    )
    secrets_grace_s: float = setting(
        GRACE_S,
        "Seconds for which the content that was read last stays valid after token_file, tls_client_ca_file, "
        "or the store's encryption_keys_file became unusable: deleted, emptied, malformed, or open to other "
        "users. Then requests that need it are rejected until the file is corrected.",
    )
    requests_bytes_max: int = setting(
        RPC_REQUESTS_BYTES_MAX,
        "Bytes of the requests that are received and handled at once, of all callers together. One caller "
        "may have half of them. A request counts in whole as soon as its length is known. The same limits hold for the "
        "answers that callers have not read yet.",
        least=2 * RPC_MESSAGE_BYTES_MAX,
    )
    insecure: bool = setting(
        False,
        "Whether the server may run without authentication on any address: every caller then has all "
        "tenants and roles. For closed networks, and service meshes that authenticate.",
    )

    def __post_init__(self) -> None:
        require_bounds(self)
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise SettingsError(
                f"{self._variable('tls_cert_file')} and {self._variable('tls_key_file')} need each other."
            )
        if self.tls_client_ca_file is not None and self.tls_cert_file is None:
            raise SettingsError(
                f"{self._variable('tls_client_ca_file')} needs {self._variable('tls_cert_file')} and "
                f"{self._variable('tls_key_file')}: certificates are shown over TLS."
            )
        if not (self.knows_callers or self.insecure or is_loopback(self.host)):
            raise SettingsError(
                f"The {self.section} would listen on {self.host} and serve every caller. "
                f"Set {self._variable('token_file')} (tokens) or {self._variable('tls_client_ca_file')} (mTLS), listen "
                f"on 127.0.0.1, or set {self._variable('insecure')} where the network authenticates."
            )

    @property
    def knows_callers(self) -> bool:
        return self.token_file is not None or self.tls_client_ca_file is not None

    def access(self) -> str:
        """The ways of authentication in a few words, for the banner."""
        ways = [("tokens", self.token_file), ("client certificates", self.tls_client_ca_file)]
        asked = " and ".join(name for name, file in ways if file) or "no authentication"
        return f"{asked}, TLS" if self.tls_cert_file else asked

    def access_warnings(self) -> Iterator[tuple[str, str]]:
        """Yields a (message, explanation) for each setting of access that is valid but unsafe."""
        if is_loopback(self.host):
            return
        if not self.knows_callers:
            yield (
                f"The {self.section} listens on {self.host}, and its callers are not authenticated.",
                "'insecure' is on: every client that reaches the port can act for every tenant. Expose the port only "
                "to a network that authenticates, or set token_file.",
            )
        elif self.tls_cert_file is None:
            yield (
                f"The {self.section} listens on {self.host} without encryption.",
                "Tokens and conversations can be read on the network. Set tls_cert_file and tls_key_file, or expose "
                "the port only to a network that encrypts.",
            )

    def _variable(self, name: str) -> str:
        return f"ANTIPHON_{self.section}_{name}".upper()
