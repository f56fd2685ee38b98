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


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The credentials of a client, and the certificate authorities that it trusts. All files but the token's are PEM.

    The token is sent with every call. It is `token`, or the content of `token_file`. `tls_ca_file` has the authorities
    that may sign the server's certificate; it turns TLS on. `tls_cert_file` and `tls_key_file` are the client's own
    certificate. All files are read again when they change, and the last usable content stays valid.
    `settings_prefix`, such as "store_", begins the names of the settings in the metric of unusable files.
    SettingsError: the arguments exclude or need each other. Unusable files raise it when a client is made.
    """

    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    tls_ca_file: Path | None = None
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    settings_prefix: str = field(default="", compare=False)

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
            setting = f"{self.settings_prefix}token_file"

            def read() -> str:
                return check_token(read_secret(path, "the token file").strip(), str(path))

            return Watched([path], read, setting=setting).get
        return None

    def open_ssl(self) -> Callable[[], ssl.SSLContext] | None:
        """Returns a function that returns the current certificates; None for plaintext."""
        from antiphon_core.rpc.tls import KeyPair, client_ssl  # late: settings use this module without TLS

        authorities = self.tls_ca_file
        if authorities is None:
            return None
        pair, paths = None, [authorities]
        if self.tls_cert_file is not None and self.tls_key_file is not None:
            pair = KeyPair(self.tls_cert_file, self.tls_key_file)
            paths += [pair.certificate, pair.key]
        return Watched(paths, lambda: client_ssl(authorities, pair), setting=f"{self.settings_prefix}tls_ca_file").get


ANONYMOUS = ClientCredentials()
