"""Encrypts ("seals") and decrypts ("opens") single payloads, each bound to its tenant and the name of its row.

    sealed payload   magic, length of the key's id, the key's id, nonce, AES-256-GCM ciphertext with its tag
    sealed field     FIELD_PREFIX and a sealed payload in base64

A payload without the magic was written before encryption was turned on, and is read unchanged. An empty payload stays
empty.

AES-GCM fails in the same way for damaged bytes and for a wrong key. A key that has sealed or opened another payload in
this process is the right one, so the bytes are damaged. Otherwise the key is suspected first: nothing is to be deleted,
and no job is to end, because of a wrong line in the file of keys.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon_core import damage
from antiphon_core.errors import DataDamaged, InternalError, StoreUnavailable
from antiphon_core.jsons import dumps, loads
from antiphon_core.sealing_keys import KeySource
from antiphon_core.telemetry import remedies
from antiphon_store.rows.model import Partition, Ref

log = logging.getLogger(__name__)

MAGIC = b"\x00antiphon-sealed-1"
FIELD_PREFIX = "sealed-1:"
NONCE_BYTES = 12
_DIGEST_PURPOSE = b"antiphon-digest-1\0"


class PayloadCipher:
    """Seals with the newest key, and opens with any key of the file."""

    def __init__(self, keys: KeySource) -> None:
        self._keys = keys
        self._of_key: dict[bytes, AESGCM] = {}  # a cache: making one takes as long as opening a payload
        self._proven: set[bytes] = set()  # keys that have sealed or opened a payload

    def seal(self, plain: bytes, bound_to: bytes) -> bytes:
        """Encrypts a payload. Unavailable: the file of keys has been unusable for longer than the grace period."""
        if not plain:
            return plain
        keys = self._keys.get()
        key_id, nonce = keys.current.encode(), secrets.token_bytes(NONCE_BYTES)
        key = keys.keys[keys.current]
        sealed = self._aead(key).encrypt(nonce, plain, bound_to)
        self._proven.add(key)
        return b"".join((MAGIC, bytes([len(key_id)]), key_id, nonce, sealed))

    def open(self, stored: bytes, bound_to: bytes) -> bytes:
        """Decrypts a payload. StoreUnavailable: its key is not in the file. DataDamaged: the payload is
        damaged, or belongs to another row. InternalError: perhaps the file has another key under that id.
        Unavailable: see `seal`."""
        if not stored.startswith(MAGIC):
            return stored
        start = len(MAGIC) + 1
        end = start + int.from_bytes(stored[start - 1 : start])
        if len(stored) < end + NONCE_BYTES:
            raise _damage_error(bound_to)
        key_id, nonce = stored[start:end].decode(errors="replace"), stored[end : end + NONCE_BYTES]
        key = self._keys.get().keys.get(key_id)
        if key is None:
            text = "%s is sealed with the key %r, which is not in the file"
            log.error(text, describe(bound_to), key_id, extra=remedies.RESTORE_KEY)
            text = "The store cannot decrypt its data: a key is missing. Its log says which."
            raise StoreUnavailable(text, missing_key=True)
        try:
            plain = self._aead(key).decrypt(nonce, stored[end + NONCE_BYTES :], bound_to)
        except (InvalidTag, ValueError) as error:
            raise (_damage_error(bound_to) if key in self._proven else _not_opened(bound_to, key_id)) from error
        self._proven.add(key)
        return plain

    def digest_names(self, digest: bytes) -> Sequence[str]:
        """The HMAC of a digest under each key of the file, the newest key first. Unavailable: see `seal`."""
        keys = self._keys.get()
        newest_first = [keys.current, *(each for each in keys.keys if each != keys.current)]
        made = (hmac.digest(keys.keys[each], _DIGEST_PURPOSE + digest, "sha256") for each in newest_first)
        return [each[: len(digest)].hex() for each in made]

    def _aead(self, key: bytes) -> AESGCM:
        found = self._of_key.get(key)
        if found is None:
            found = self._of_key[key] = AESGCM(key)
        return found

    def seal_field(self, value: Any, bound_to: bytes) -> Any:
        """Encrypts a JSON value. None stays None."""
        return None if value is None else FIELD_PREFIX + b64encode(self.seal(dumps(value), bound_to)).decode()

    def open_field(self, stored: Any, bound_to: bytes) -> Any:
        """Decrypts a JSON value. A value without the prefix was not sealed, and is returned unchanged."""
        if not (isinstance(stored, str) and stored.startswith(FIELD_PREFIX)):
            return stored
        try:
            return loads(self.open(b64decode(stored.removeprefix(FIELD_PREFIX), validate=True), bound_to))
        except ValueError as error:  # neither base64 nor JSON
            raise _damage_error(bound_to) from error


def bound_to(partition: Partition, ref: Ref, name: str) -> bytes:
    """The associated data (of AES-GCM) of a payload or field: its ciphertext cannot be decrypted for another row."""
    return "\0".join((partition.tenant, partition.tree, ref.kind, ref.id, name)).encode()


def describe(associated: bytes) -> str:
    """The row's kind and id, and the payload's name, for the log."""
    return " ".join(associated.decode().split("\0")[2:])


def _not_opened(bound_to: bytes, key_id: str) -> InternalError:
    """Logs which payload a key of the file does not open, and returns the error for the caller."""
    log.error("the key %r of the file does not decrypt %s", key_id, describe(bound_to), extra=remedies.CHECK_KEY)
    text = (
        "Stored data cannot be decrypted with the key that it names: the store has another key under this id, or the "
        "data is damaged or belongs to another row."
    )
    return InternalError(text, missing_key=True)


def _damage_error(bound_to: bytes) -> DataDamaged:
    """Logs which payload cannot be decrypted, and returns the error for the caller."""
    return damage.report(describe(bound_to), "they cannot be decrypted, or belong to another row")
