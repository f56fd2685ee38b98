"""Authentication and encryption of a gRPC server, read from the files that its settings name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import grpc

from antiphon_core.rpc.authentication import Guard
from antiphon_core.rpc.settings import RpcServerSettings
from antiphon_core.rpc.tls import KeyPair, server_tls


@dataclass(frozen=True, slots=True)
class ServerSecurity:
    """Authentication and encryption of a server: `guard` asks for credentials, `tls` may ask for certificates."""

    guard: Guard | None = None
    tls: grpc.ServerCredentials | None = None

    @classmethod
    def of(cls, settings: RpcServerSettings) -> Self:
        """Reads the files. SettingsError: one of them will not do."""
        guard = Guard(settings.token_file, grace_s=settings.secrets_grace_s) if settings.token_file else None
        if settings.tls_cert_file is None or settings.tls_key_file is None:
            return cls(guard)
        pair = KeyPair(settings.tls_cert_file, settings.tls_key_file)
        return cls(guard, server_tls(pair, settings.tls_client_ca_file))
