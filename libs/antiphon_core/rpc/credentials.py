"""The client's side of authentication: the token it shows, and TLS."""

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
    """The credentials of a client, and the authorities by which it knows its server. All files are PEM, except the
    token's.

    A `token` is sent with every call; a `token_file` holds nothing else, and is read again when it changes.
    `tls_ca_file`, the authorities that may sign the server's certificate, turns TLS on. `tls_cert_file` and
    `tls_key_file` are the client's own certificate; they are read once. SettingsError: parts that exclude or need each
    other, here; files that will not do, when a client is made.
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
        """Returns a function that gives the current token; None if there is no token."""
        if self.token is not None:
            token = check_token(self.token, "token")
            return lambda: token
        if self.token_file is not None:
            path = self.token_file
            return Watched([path], lambda: check_token(read_secret(path, "the token file").strip(), str(path))).get
        return None

    def open_tls(self) -> grpc.ChannelCredentials | None:
        """gRPC's form of the certificates; None for plaintext."""
        from antiphon_core.rpc.tls import KeyPair, client_tls  # settings hold credentials, and do not need gRPC

        if self.tls_ca_file is None:
            return None
        if self.tls_cert_file is None or self.tls_key_file is None:
            return client_tls(self.tls_ca_file, None)
        return client_tls(self.tls_ca_file, KeyPair(self.tls_cert_file, self.tls_key_file))

    def open_ssl(self) -> ssl.SSLContext | None:
        """Python's form of the certificates; None for plaintext."""
        from antiphon_core.rpc.tls import KeyPair, client_ssl

        if self.tls_ca_file is None:
            return None
        if self.tls_cert_file is None or self.tls_key_file is None:
            return client_ssl(self.tls_ca_file, None)
        return client_ssl(self.tls_ca_file, KeyPair(self.tls_cert_file, self.tls_key_file))


ANONYMOUS = ClientCredentials()
