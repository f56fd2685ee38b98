"""Who calls: tokens in the metadata of a call, and the tenants that their bearers may speak for.

The tenant in a call's metadata is believed from a caller whose token says so, and from nobody else. A credentials file
has one line per token:

    # NAME  TOKEN                                TENANTS: * for all, or a list with commas
    edge    9f2c51d0a3e84b7f9f2c51d0a3e84b7f     *
    billing 4b7a0c66e1d24f1c4b7a0c66e1d24f1c     acme,globex

A name may have several lines, so that a token can be rotated: add the new one, hand it out, take the old one away.
Tokens are kept and compared as SHA-256 digests; none appears in a message or a log.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from antiphon_core.config import SettingsError
from antiphon_core.errors import PermissionDenied, Unauthenticated
from antiphon_core.rpc.watched import Watched, read_text

AUTHORIZATION_KEY = "authorization"
ALL_TENANTS = "*"
TOKEN_CHARS_MIN = 16  # shorter ones can be guessed; `openssl rand -hex 32` makes 64

_TOKEN = re.compile(r"[!-~]+")  # what a header can carry


@dataclass(frozen=True, slots=True)
class Credential:
    """The bearer of a token. `tenants` is None for one who may speak for all."""

    name: str
    tenants: frozenset[str] | None

    def covers(self, tenant: str) -> bool:
        return self.tenants is None or tenant in self.tenants


Credentials = Mapping[bytes, Credential]


class TokenGuard:
    """Admits calls by the tokens of a credentials file, read again when it changes.

    SettingsError: there is no such file, or what is wrong in which of its lines.
    """

    def __init__(self, path: Path) -> None:
        self._credentials = Watched([path], lambda: read_credentials(path))

    def identify(self, metadata: Mapping[str, str]) -> Credential:
        """The caller. Unauthenticated: there is no token, or nobody's."""
        return identify(metadata, self._credentials.get())

    def authenticate(self, metadata: Mapping[str, str], tenant: str) -> None:
        """Returns when the caller may speak for `tenant`. Unauthenticated, PermissionDenied: it may not."""
        credential = self.identify(metadata)
        if not credential.covers(tenant):
            raise PermissionDenied.of(credential.name, tenant=tenant)


def identify(metadata: Mapping[str, str], credentials: Credentials) -> Credential:
    """The bearer of the token in `metadata`. One digest and one look-up: how long the look-up takes tells about
    digests, from which no token follows."""
    scheme, _, token = metadata.get(AUTHORIZATION_KEY, "").partition(" ")
    if not token or scheme.lower() != "bearer":
        raise Unauthenticated("This call carries no token. Send one as metadata, 'authorization: Bearer TOKEN'.")
    credential = credentials.get(digest(token))
    if credential is None:
        raise Unauthenticated("The token of this call is not one that is known here.")
    return credential


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def text_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> dict[str, str]:
    """The metadata of a call that is text, the last of each key."""
    return {key: value for key, value in metadata or () if isinstance(value, str)}


def read_credentials(path: Path) -> Credentials:
    """What a credentials file says, by the digests of its tokens."""
    found: dict[bytes, Credential] = {}
    for number, line in enumerate(read_text(path, "the credentials file").splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            token, credential = _parse(line, f"{path}, line {number}")
            if found.setdefault(digest(token), credential) is not credential:
                raise SettingsError(f"{path}, line {number}: an earlier line has the same token.")
    if not found:
        raise SettingsError(f"{path} holds no credentials. A line is NAME TOKEN TENANTS, such as 'edge ... *'.")
    return found


def _parse(line: str, where: str) -> tuple[str, Credential]:
    words = line.split()
    if len(words) != 3:
        raise SettingsError(f"{where}: {len(words)} words instead of three, NAME TOKEN TENANTS.")
    name, token, listed = words
    tenants = frozenset(listed.split(","))
    if "" in tenants or (ALL_TENANTS in tenants and len(tenants) > 1):
        raise SettingsError(f"{where}: TENANTS must be '*' or tenants with commas between them.")
    return check_token(token, where), Credential(name, None if ALL_TENANTS in tenants else tenants)


def check_token(token: str, where: str) -> str:
    """`token` itself. SettingsError: it cannot travel in metadata, or is short enough to be guessed."""
    if not _TOKEN.fullmatch(token):
        raise SettingsError(f"{where}: a token is printable ASCII without spaces.")
    if len(token) < TOKEN_CHARS_MIN:
        raise SettingsError(f"{where}: a token needs {TOKEN_CHARS_MIN} characters at least.")
    return token
