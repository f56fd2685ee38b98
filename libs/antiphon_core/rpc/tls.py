"""TLS of servers and clients, from PEM files that are read again when they change (watched.py)."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from antiphon_core.config import SettingsError
from antiphon_core.rpc.watched import Watched, read_text


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The files of a certificate (its chain, leaf first) and of its private key, which has no password."""

    certificate: Path
    key: Path

    def load_into(self, context: ssl.SSLContext) -> None:
        """Gives `context` the certificate and its key. SettingsError: the files cannot be read, or do not match."""
        read_text(self.certificate, "the certificate")  # for its message: ssl does not say which file it is
        read_text(self.key, "the private key")
        try:
            context.load_cert_chain(self.certificate, self.key, password="")
        except (ssl.SSLError, OSError) as error:
            raise SettingsError(
                f"{self.certificate} and {self.key} are not a certificate and its key, without a password, as PEM."
            ) from error


def read_authorities(path: Path) -> bytes:
    """Reads the certificates of authorities in a PEM file. SettingsError: it has none."""
    text = read_text(path, "the certificates of authorities")
    _load_authorities(path, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    return text.encode()


def _load_authorities(path: Path, context: ssl.SSLContext) -> None:
    try:
        context.load_verify_locations(path)  # `cadata` would have to be ASCII
    except (ssl.SSLError, OSError) as error:
        raise SettingsError(f"{path} holds no certificates of authorities as PEM.") from error


def server_tls(pair: KeyPair, client_authorities: Path | None) -> Callable[[], ssl.SSLContext]:
    """TLS for a server: a function that returns the context for a new connection. With `client_authorities` clients
    need a certificate that one of them has signed. SettingsError: a file is unusable.

    The files are read again when they change; open connections keep the old certificates.
    """
    paths = [pair.certificate, pair.key, *([client_authorities] if client_authorities else [])]
    return Watched(paths, lambda: _server_context(pair, client_authorities), setting="tls_cert_file").get


def _server_context(pair: KeyPair, client_authorities: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    pair.load_into(context)
    if client_authorities is not None:
        _load_authorities(client_authorities, context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_ssl(authorities: Path, pair: KeyPair | None) -> ssl.SSLContext:
    """TLS for a client that trusts servers with a certificate of `authorities`, and no others. `pair` is the client's
    certificate, if it has one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False  # RFC 9525: only alternative names count
    _load_authorities(authorities, context)
    if pair is not None:
        pair.load_into(context)
    return context
