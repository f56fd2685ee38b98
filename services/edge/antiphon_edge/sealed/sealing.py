"""Encryption of the content that clients keep. Any replica that has the key can open it.

A sealed text is `v1.`, the key's id, a dot, and base64url of a nonce and an AES-256-GCM ciphertext. Version, tenant and
purpose are authenticated data; the expiry time is in the plaintext. A key file has one key per line, the newest first:

    # ID        64 hexadecimal digits; `openssl rand -hex 32`
    2026-11     6f1d...

New texts are sealed with the first key. The other keys still open older texts, until you remove them. The file is read
again when it changes.
"""

from __future__ import annotations

import binascii
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon_core.clock import Clock
from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import dumps, loads
from antiphon_core.rpc.watched import GRACE_S, Watched
from antiphon_core.sealing_keys import KeySource, SealingKeys

_VERSION = "v1"
_NONCE_BYTES = 12


class BadSeal(Exception):
    """A sealed text is not ours, belongs to another tenant or purpose, was changed, or has expired: deliberately
    without saying which."""


class Sealer:
    """Seals and opens texts. `ttl_s`: seconds after which a sealed text has expired. Unavailable, from both methods:
    the key file has been unusable for longer than its grace period."""

    def __init__(self, keys: KeySource, *, ttl_s: int, clock: Clock) -> None:
        self._keys = keys
        self._ttl_s = ttl_s
        self._clock = clock

    @classmethod
    def of(
        cls,
        path: Path | None,
        *,
        ttl_s: int,
        clock: Clock,
        grace_s: float = GRACE_S,
        setting: str = "edge.sealing_keys_file",
    ) -> Sealer:
        """A sealer with the keys of a file, or without one with a random key. `setting` names the file in logs and
        metrics. SettingsError: the file cannot be used."""
        if path is None:
            return cls(SealingKeys.ephemeral(), ttl_s=ttl_s, clock=clock)
        file = Watched([path], lambda: SealingKeys.read(path), setting=setting, grace_s=grace_s)
        return cls(file, ttl_s=ttl_s, clock=clock)

    def seal(self, tenant: str, text: str, *, purpose: str = "") -> str:
        """Seals a text. A text that was sealed for one purpose cannot be opened for another."""
        expires_at = self._clock.now_ms() // 1000 + self._ttl_s
        nonce = secrets.token_bytes(_NONCE_BYTES)
        plain = dumps([expires_at, text])
        keys = self._keys.get()
        ciphertext = AESGCM(keys.keys[keys.current]).encrypt(nonce, plain, _bound_to(tenant, purpose))
        return f"{_VERSION}.{keys.current}.{urlsafe_b64encode(nonce + ciphertext).decode()}"

    def open(self, tenant: str, sealed: str, *, purpose: str = "") -> str:
        """Opens a sealed text. BadSeal."""
        version, _, rest = sealed.partition(".")
        key_id, _, encoded = rest.partition(".")
        key = self._keys.get().keys.get(key_id)
        if version != _VERSION or key is None:
            raise BadSeal
        try:
            raw = urlsafe_b64decode(encoded)
            if urlsafe_b64encode(raw).decode() != encoded:  # line breaks and other characters are skipped
                raise BadSeal
            bound_to = _bound_to(tenant, purpose)
            expires_at, text = loads(AESGCM(key).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], bound_to))
        except (InvalidTag, ValueError, binascii.Error) as error:
            raise BadSeal from error
        if self._clock.now_ms() // 1000 >= expires_at:
            raise BadSeal
        return str(text)


def bad_seal_error(path: str) -> InvalidRequest:
    """The error for a sealed text that cannot be opened."""
    return InvalidRequest(
        f"The encrypted content of '{path}' could not be verified: it is not from this server, was changed, or has "
        "expired.",
        field=path,
        code="invalid_encrypted_content",
    )


def _bound_to(tenant: str, purpose: str) -> bytes:
    return f"{_VERSION}/{tenant}\0{purpose}".encode()
