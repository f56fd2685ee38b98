"""The credentials of gRPC clients: tokens and TLS certificates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from antiphon_core.config import SettingsError
from antiphon_core.rpc.authentication import check_token
from antiphon_core.rpc.watched import Watched, read_secret

if TYPE_CHECKING:
    import ssl

    import grpc


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The credentials of a client, and the certificate authorities that it trusts. All files but the token's are PEM.

    The token is sent with every call. It is `token`, or the content of `token_file`, which is read again when it
    changes. `tls_ca_file` has the authorities that may sign the server's certificate; it turns TLS on. `tls_cert_file`
    and `tls_key_file` are the client's own certificate, which is read once. SettingsError: the arguments exclude or
    need each other. Unusable files raise it when a client is made.
    """

    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    tls_ca_file: Path | None = None
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None

    def __post_init__(self) -> None:
        if self.token is not None and self.token_file is not None:
            raise SettingsError("A client has a token or a token_file, not both.")
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise SettingsError("tls_cert_file and tls_key_file need each other.")
        if self.tls_cert_file is not None and self.tls_ca_file is None:
            raise SettingsError("tls_cert_file needs tls_ca_file: TLS is on when the server's authority is known.")

    def open_token(self) -> Callable[[], str] | None:
        """Returns a function that returns the current token; None without a token."""
        if self.token is not None:
            token = check_token(self.token, "token")
            return lambda: token
        if self.token_file is not None:
            path = self.token_file
            return Watched([path], lambda: check_token(read_secret(path, "the token file").strip(), str(path))).get
        return None

    def open_tls(self) -> grpc.ChannelCredentials | None:
        """The certificates for gRPC; None for plaintext."""
        from antiphon_core.rpc.tls import KeyPair, client_tls  # imported late: settings use this module without gRPC

        if self.tls_ca_file is None:
            return None
        if self.tls_cert_file is None or self.tls_key_file is None:
            return client_tls(self.tls_ca_file, None)
        return client_tls(self.tls_ca_file, KeyPair(self.tls_cert_file, self.tls_key_file))

    def open_ssl(self) -> ssl.SSLContext | None:
        """The certificates for Python's `ssl`; None for plaintext."""
        from antiphon_core.rpc.tls import KeyPair, client_ssl

        if self.tls_ca_file is None:
            return None
        if self.tls_cert_file is None or self.tls_key_file is None:
            return client_ssl(self.tls_ca_file, None)
        return client_ssl(self.tls_ca_file, KeyPair(self.tls_cert_file, self.tls_key_file))


ANONYMOUS = ClientCredentials()
