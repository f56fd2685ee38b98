"""Names of client certificates, as a credentials file writes them and as TLS has verified them.

    certificate:edge.antiphon.svc           the DNS name; or the common name of a certificate without alternative names
    certificate:dns:edge.antiphon.svc       the DNS name
    certificate:uri:spiffe://acme/edge      the URI
    certificate:email:edge@acme.example     the email address
    certificate:ip:10.0.3.9                 the IP address

A name matches an alternative name of its own type only. An authority checks each type in its own way: a person who may
have a certificate for an email address `edge.antiphon.svc` must not be the edge. The common name is free text, and
counts only where there is nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from ipaddress import ip_address
from typing import NamedTuple

from antiphon_core.config import SettingsError

CERTIFICATE = "certificate:"

Peer = Mapping[str, Iterable[bytes]]
"""gRPC's `auth_context`: the properties of the peer that TLS verified."""
_ANY_ALTERNATIVE = "x509_subject_alternative_name"
_COMMON = "x509_common_name"


class NameType(StrEnum):
    """The type of a name. `UNTYPED` is a name without a type in the file."""

    DNS = "dns"
    URI = "uri"
    EMAIL = "email"
    IP = "ip"
    UNTYPED = ""


_PROPERTIES = {
    "peer_dns": NameType.DNS,
    "peer_uri": NameType.URI,
    "peer_email": NameType.EMAIL,
    "peer_ip": NameType.IP,
}


class CertificateName(NamedTuple):
    type: NameType
    name: str


def parse(written: str, where: str) -> CertificateName:
    """Reads the name behind `certificate:`. SettingsError: it has no type, and is no DNS name."""
    type_, colon, name = written.partition(":")
    if colon and type_ in _PROPERTIES.values():
        return _typed(NameType(type_), name, where)
    if not written or set(written) & set(":/@"):
        types = ", ".join(_PROPERTIES.values())
        raise SettingsError(f"{where}: the name of a certificate that is no DNS name needs its type, one of: {types}.")
    return _named(NameType.UNTYPED, written)


def of_peer(peer: Peer) -> Iterator[CertificateName]:
    """Yields the names of a verified certificate under which a credentials file may have it."""
    for property_, type_ in _PROPERTIES.items():
        for value in peer.get(property_, ()):
            name = _named(type_, value.decode(errors="replace"))
            yield name
            if type_ is NameType.DNS:
                yield name._replace(type=NameType.UNTYPED)
    if not any(peer.get(_ANY_ALTERNATIVE, ())):
        for value in peer.get(_COMMON, ()):
            yield _named(NameType.UNTYPED, value.decode(errors="replace"))


def _typed(type_: NameType, name: str, where: str) -> CertificateName:
    try:
        return _named(type_, str(ip_address(name)) if type_ is NameType.IP else name)
    except ValueError as error:
        raise SettingsError(f"{where}: '{name}' is no IP address.") from error


def _named(type_: NameType, name: str) -> CertificateName:
    has_case = type_ in (NameType.URI, NameType.EMAIL)
    return CertificateName(type_, name if has_case else name.lower())
