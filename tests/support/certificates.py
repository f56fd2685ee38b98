"""Certificates for tests: an authority, and the certificates that it signs for this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_LIFETIME = timedelta(days=2)
NAMES = (x509.IPAddress(IPv4Address("127.0.0.1")), x509.DNSName("localhost"))


@dataclass(frozen=True)
class Certificate:
    cert: Path
    key: Path


def authority(folder: Path, name: str, *, lifetime: timedelta = _LIFETIME) -> Certificate:
    """Makes a self-signed certificate. With a `lifetime` below zero it has expired."""
    key = ec.generate_private_key(ec.SECP256R1())
    described = _described(name, key, lifetime).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    return _write(folder, name, key, described.issuer_name(_subject(name)).sign(key, hashes.SHA256()))


def signed_by(
    signer: Certificate, folder: Path, name: str, *, names: Sequence[x509.GeneralName] = NAMES
) -> Certificate:
    """Makes a certificate for a server on 127.0.0.1, or for a client. `name` is its common name, `names` are its
    alternative names."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(signer.cert.read_bytes())
    issuer_key = serialization.load_pem_private_key(signer.key.read_bytes(), password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    described = _described(name, key).issuer_name(issuer.subject).add_extension(issuer_id, critical=False)
    if names:
        described = described.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _write(folder, name, key, described.sign(issuer_key, hashes.SHA256()))


def lock(key: Path, locked: Path, password: str) -> None:
    """Writes a private key that is encrypted with a password."""
    opened = serialization.load_pem_private_key(key.read_bytes(), password=None)
    encryption = serialization.BestAvailableEncryption(password.encode())
    pkcs8 = serialization.PrivateFormat.PKCS8
    locked.write_bytes(opened.private_bytes(serialization.Encoding.PEM, pkcs8, encryption))


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _described(name: str, key: ec.EllipticCurvePrivateKey, lifetime: timedelta = _LIFETIME) -> x509.CertificateBuilder:
    """Returns a certificate builder with everything but the issuer. The certificate is valid from two hours ago."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=2))
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _write(folder: Path, name: str, key: ec.EllipticCurvePrivateKey, cert: x509.Certificate) -> Certificate:
    made = Certificate(cert=folder / f"{name}.pem", key=folder / f"{name}.key")
    pem, pkcs8, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    made.key.write_bytes(key.private_bytes(pem, pkcs8, plain))
    made.cert.write_bytes(cert.public_bytes(pem))
    return made
