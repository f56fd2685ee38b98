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

from collections.abc import Iterator, Mapping
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, NamedTuple

from antiphon_core.config import SettingsError

CERTIFICATE = "certificate:"

Certificate = Mapping[str, Any]
"""A certificate that TLS verified, as `ssl.SSLSocket.getpeercert` returns it; empty without one."""


class NameType(StrEnum):
    """The type of a name. `UNTYPED` is a name without a type in the file."""

    DNS = "dns"
    URI = "uri"
    EMAIL = "email"
    IP = "ip"
    UNTYPED = ""


_TYPES = {
    "DNS": NameType.DNS,
    "URI": NameType.URI,
    "email": NameType.EMAIL,
    "IP Address": NameType.IP,
}


class CertificateName(NamedTuple):
    type: NameType
    name: str


def parse(written: str, where: str) -> CertificateName:
    """Reads the name behind `certificate:`. SettingsError: it has no type, and is no DNS name."""
    type_, colon, name = written.partition(":")
    if colon and type_ in _TYPES.values():
        return _parse_typed(NameType(type_), name, where)
    if not written or set(written) & set(":/@"):
        types = ", ".join(_TYPES.values())
        raise SettingsError(f"{where}: the name of a certificate that is no DNS name needs its type, one of: {types}.")
    return _parse_name(NameType.UNTYPED, written)


def of_certificate(certificate: Certificate) -> Iterator[CertificateName]:
    """Yields the names of a verified certificate under which a credentials file may have it."""
    alternatives = certificate.get("subjectAltName", ())
    for kind, value in alternatives:
        if (type_ := _TYPES.get(kind)) is not None:
            name = _parse_name(type_, str(ip_address(value.strip())) if type_ is NameType.IP else value)
            yield name
            if type_ is NameType.DNS:
                yield name._replace(type=NameType.UNTYPED)
    if not alternatives:
        for kind, value in (field for fields in certificate.get("subject", ()) for field in fields):
            if kind == "commonName":
                yield _parse_name(NameType.UNTYPED, value)


def _parse_typed(type_: NameType, name: str, where: str) -> CertificateName:
    try:
        return _parse_name(type_, str(ip_address(name)) if type_ is NameType.IP else name)
    except ValueError as error:
        raise SettingsError(f"{where}: '{name}' is no IP address.") from error


def _parse_name(type_: NameType, name: str) -> CertificateName:
    has_case = type_ in (NameType.URI, NameType.EMAIL)
    return CertificateName(type_, name if has_case else name.lower())
