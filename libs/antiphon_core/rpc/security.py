"""Authentication and encryption of a gRPC server, read from the files that its settings name."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from antiphon_core.rpc.authentication import Guard
from antiphon_core.rpc.settings import RpcServerSettings
from antiphon_core.rpc.tls import KeyPair, read_authorities, server_tls
from antiphon_core.rpc.watched import Watched


@dataclass(frozen=True, slots=True)
class ServerSecurity:
    """Authentication and encryption of a server. `guard` checks tokens and certificates against a credentials file;
    `tls` may require client certificates, which one of `authorities` must have signed."""

    guard: Guard | None = None
    tls: Callable[[], ssl.SSLContext] | None = None
    authorities: Watched[bytes] | None = None

    def require_usable(self) -> None:
        """Raises Unavailable if the file of authorities has been unusable for longer than `secrets_grace_s`. TLS would
        accept clients all the same: it continues with the authorities that it read last."""
        if self.authorities is not None:
            self.authorities.get()

    @classmethod
    def of(cls, settings: RpcServerSettings) -> Self:
        """Reads the files that the settings name. SettingsError: one of them is unusable."""
        guard = Guard(settings.token_file, grace_s=settings.secrets_grace_s) if settings.token_file else None
        if settings.tls_cert_file is None or settings.tls_key_file is None:
            return cls(guard)
        pair = KeyPair(settings.tls_cert_file, settings.tls_key_file)
        return cls(guard, server_tls(pair, settings.tls_client_ca_file), _authorities(settings))


def _authorities(settings: RpcServerSettings) -> Watched[bytes] | None:
    path = settings.tls_client_ca_file
    if path is None:
        return None
    setting, grace_s = "tls_client_ca_file", settings.secrets_grace_s
    return Watched([path], lambda: read_authorities(path), setting=setting, grace_s=grace_s)
