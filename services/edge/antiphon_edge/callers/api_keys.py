"""API keys: their format, the file that stores them, and how a presented key is checked.

A key is `ak_` + its id + `_` + 256 random bits. The keys file has one line per key. The line holds no key, only the
HMAC-SHA256 of the whole key under the pepper, a secret in a file of its own:

    # ID           TENANT  HMAC-SHA256       CREATED               EXPIRES               REVOKED  NAME
    9f2c51d0a3e8   acme    0c5b...64 digits  2026-11-21T20:38:00Z  2027-11-21T20:38:00Z  -        the ci runner

So reading the file does not help to make a request, and writing to it does not add a valid key without the pepper.
To rotate the pepper, add a new one as the first line of its file: new keys are made with the first line, and the other
lines still verify older keys until you remove them.

The id of a key is not a secret: it finds the line, and stands for the key in messages, logs and lists. The rest of a
key appears in none of them.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from antiphon_core.clock import Clock
from antiphon_core.config import SettingsError
from antiphon_core.errors import InvalidApiKey
from antiphon_core.ids import is_reserved_tenant, is_tenant
from antiphon_core.rpc.watched import GRACE_S, Watched, read_secret

HEADER = "# ID TENANT HMAC-SHA256 CREATED EXPIRES REVOKED NAME"
NAME_CHARS_MAX = 64
PEPPER_CHARS_MIN = 32

_NEVER = "-"
_DIGEST_DIGITS = 64
_ID = re.compile(r"[0-9a-f]{12}")
_KEY = re.compile(r"ak_([0-9a-f]{12})_[0-9a-f]{64}")
_NAME = re.compile(rf"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{{0,{NAME_CHARS_MAX}}}")  # stays on its line
_UNKNOWN_DIGEST = bytes(32)  # compared where no key has the id


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The stored form of a key. Times are Unix time in milliseconds, whole seconds in the file."""

    id: str
    tenant: str
    digest: bytes = field(repr=False)
    created_at_ms: int
    expires_at_ms: int | None = None
    revoked_at_ms: int | None = None
    name: str = ""

    def state(self, now_ms: int) -> str:
        if self.revoked_at_ms is not None:
            return "revoked"
        expired = self.expires_at_ms is not None and self.expires_at_ms <= now_ms
        return "expired" if expired else "valid"

    def line(self) -> str:
        """The key's line in the file."""
        times = (show_time(at) for at in (self.created_at_ms, self.expires_at_ms, self.revoked_at_ms))
        return " ".join([self.id, self.tenant, self.digest.hex(), *times, self.name]).rstrip()


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys of a file by their ids, and the peppers that they were made with."""

    peppers: Sequence[bytes] = field(repr=False)
    keys: Mapping[str, ApiKey]

    def identify(self, given: str, now_ms: int) -> ApiKey:
        """Finds the key that a caller presents. Digests are compared in constant time, even for an unknown id.

        Raises:
            InvalidApiKey: the key is malformed, unknown, revoked or expired. The message says revoked or expired only
                to the holder of the key: its digest matched.
        """
        form = _KEY.fullmatch(given)
        if form is None:
            raise InvalidApiKey("Incorrect API key provided. Keys of this server begin with 'ak_'.")
        key_id = form.group(1)
        key = self.keys.get(key_id)
        kept = key.digest if key is not None else _UNKNOWN_DIGEST
        matches = [hmac.compare_digest(digest(pepper, given), kept) for pepper in self.peppers]
        if key is None or not any(matches):
            raise InvalidApiKey(f"Incorrect API key provided: ak_{key_id}_***.", key_id=key_id)
        state = key.state(now_ms)
        if state != "valid":
            raise InvalidApiKey(f"The API key ak_{key_id}_*** is {state}. Use another one.", key_id=key_id)
        return key


class KeyGuard:
    """Identifies callers by the keys of a file, which is read again when it or the pepper file changes.

    SettingsError at the start: a file cannot be used; the message says why. When a file becomes unusable later,
    the keys stay valid for `grace_s`.
    """

    def __init__(self, keys_file: Path, pepper_file: Path, *, clock: Clock, grace_s: float = GRACE_S) -> None:
        self._clock = clock
        self._ring = Watched(
            [keys_file, pepper_file],
            lambda: KeyRing(read_peppers(pepper_file), read_keys(keys_file)),
            setting="edge.keys_file",
            grace_s=grace_s,
        )

    def identify(self, given: str) -> ApiKey:
        """Finds the key that a caller presents.

        Raises:
            InvalidApiKey: as in KeyRing.identify.
            Unavailable: the files have been unusable for longer than the grace.
        """
        return self._ring.get().identify(given, self._clock.now_ms())


def digest(pepper: bytes, key: str) -> bytes:
    return hmac.digest(pepper, key.encode(), "sha256")


def new_key(key_id: str) -> str:
    """A key of this id, from the operating system's randomness."""
    return f"ak_{key_id}_{secrets.token_hex(32)}"


def new_key_id() -> str:
    return secrets.token_hex(6)


def new_pepper() -> str:
    return secrets.token_hex(32)


def read_peppers(path: Path) -> list[bytes]:
    """The peppers of a file, the newest first. SettingsError."""
    lines = [line.strip() for line in read_secret(path, "the pepper").splitlines() if line.strip()]
    if not lines:
        raise SettingsError(f"{path} is empty: it must hold a pepper of at least {PEPPER_CHARS_MIN} characters.")
    if min(map(len, lines)) < PEPPER_CHARS_MIN:
        raise SettingsError(f"{path} holds a pepper of less than {PEPPER_CHARS_MIN} characters: it could be guessed.")
    return [line.encode() for line in lines]


def read_keys(path: Path) -> dict[str, ApiKey]:
    keys = parse_keys(read_secret(path, "the keys file", may_be_read=True), str(path))
    if not keys:
        raise SettingsError(f"{path} holds no keys. 'antiphon keys create --tenant NAME' makes one.")
    return keys


def parse_keys(text: str, where: str) -> dict[str, ApiKey]:
    """The keys of a file's text by their ids. SettingsError names the line, and repeats nothing of it."""
    found: dict[str, ApiKey] = {}
    for number, line in key_lines(text):
        key = parse_line(line, f"{where}, line {number}")
        if found.setdefault(key.id, key) is not key:
            raise SettingsError(f"{where}, line {number}: an earlier line has the same id.")
    return found


def key_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that hold keys, with their numbers: neither empty nor comments."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def parse_line(line: str, where: str) -> ApiKey:
    words = line.split(maxsplit=6)
    if len(words) < 6:
        raise SettingsError(f"{where}: {len(words)} words; it must begin with ID TENANT HMAC CREATED EXPIRES REVOKED.")
    key_id, tenant, digits, created, expires, revoked = words[:6]
    name = words[6].strip() if len(words) > 6 else ""
    checks = [
        (_ID.fullmatch(key_id), "ID must be 12 hexadecimal digits"),
        (is_tenant(tenant), "TENANT must be 1 to 128 printable ASCII characters"),
        (not is_reserved_tenant(tenant), "a TENANT that begins with 'antiphon.' is Antiphon's own"),
        (re.fullmatch(rf"[0-9a-f]{{{_DIGEST_DIGITS}}}", digits), f"HMAC must be {_DIGEST_DIGITS} hexadecimal digits"),
        (is_key_name(name), f"NAME must be at most {NAME_CHARS_MAX} printable characters"),
    ]
    for holds, must in checks:
        if not holds:
            raise SettingsError(f"{where}: {must}.")
    created_at_ms = _time(created, where)
    if created_at_ms is None:
        raise SettingsError(f"{where}: CREATED must be a time.")
    return ApiKey(
        key_id, tenant, bytes.fromhex(digits), created_at_ms, _time(expires, where), _time(revoked, where), name
    )


def is_key_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def show_time(at_ms: int | None) -> str:
    """A time as it stands in the file: UTC in whole seconds, '-' for never."""
    if at_ms is None:
        return _NEVER
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time(text: str, where: str) -> int | None:
    if text == _NEVER:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise SettingsError(f"{where}: a time must look like 2026-11-21T20:38:00Z, or be '-' for never.")
    return round(at.timestamp() * 1000)
