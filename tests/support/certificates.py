"""Certificates for tests, by the openssl command: an authority, and what it signs for this machine."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    cert: Path
    key: Path


def authority(folder: Path, name: str) -> Certificate:
    """Signs itself."""
    return _request(folder, name, [])


def signed_by(signer: Certificate, folder: Path, name: str) -> Certificate:
    """For servers on 127.0.0.1, and for clients."""
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    return _request(folder, name, ["-CA", str(signer.cert), "-CAkey", str(signer.key), *names])


def lock(key: Path, locked: Path, password: str) -> None:
    """Writes a private key that only a password opens."""
    files = ["-in", str(key), "-out", str(locked), "-passout", f"pass:{password}"]
    subprocess.run(["openssl", "pkcs8", "-topk8", *files], check=True, capture_output=True)


def _request(folder: Path, name: str, options: list[str]) -> Certificate:
    made = Certificate(cert=folder / f"{name}.pem", key=folder / f"{name}.key")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    files = ["-keyout", str(made.key), "-out", str(made.cert)]
    subprocess.run(["openssl", "req", "-x509", *curve, *files, *options], check=True, capture_output=True)
    return made
