"""Keys for authenticated encryption (AES-256-GCM), read from a file with an id and a key on each line.

    # ID     64 HEXADECIMAL DIGITS
    2027-01  6f1c...
    2026-07  0b9e...

The first key encrypts, all of them decrypt: to rotate keys, add a new first line. This module does not encrypt, and
needs no library.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from antiphon_core.config import SettingsError
from antiphon_core.rpc.watched import read_secret

KEY_BYTES = 32
_LINE = re.compile(r"(?P<id>[A-Za-z0-9_-]{1,32})\s+(?P<key>[0-9a-fA-F]{64})")


@dataclass(frozen=True, slots=True)
class SealingKeys:
    """Keys by id. `current` is the id of the key that encrypts."""

    current: str
    keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def read(cls, path: Path, what: str = "the sealing keys") -> SealingKeys:
        """Reads a file of keys. SettingsError: it is unusable; the message names the line, and never a key."""
        lines = read_secret(path, what).splitlines()
        keys: dict[str, bytes] = {}
        for number, line in enumerate(lines, 1):
            text = line.partition("#")[0].strip()
            if not text:
                continue
            match = _LINE.fullmatch(text)
            if match is None or match["id"] in keys:
                raise SettingsError(f"{path}, line {number}: a line is an ID of its own and 64 hexadecimal digits.")
            keys[match["id"]] = bytes.fromhex(match["key"])
        if not keys:
            raise SettingsError(f"{path} holds no keys.")
        return cls(next(iter(keys)), keys)

    def get(self) -> SealingKeys:
        """Implements KeySource by keys that never change."""
        return self

    @classmethod
    def ephemeral(cls) -> SealingKeys:
        """A random key that is lost when the process ends."""
        return cls("ephemeral", {"ephemeral": secrets.token_bytes(KEY_BYTES)})


class KeySource(Protocol):
    """A source of the current keys: fixed `SealingKeys`, or a file that is read again when it changes."""

    def get(self) -> SealingKeys: ...
