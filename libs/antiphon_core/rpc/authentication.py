"""Authentication and authorization of RPCs by tokens or client certificates.

A credential has tenants and roles. A call is admitted if its credential covers the tenant in its metadata and has one
of the roles of the method. A credentials file has one line per token or certificate:

    # NAME    TOKEN                             TENANTS: * for all, or a list with commas    ROLES: a list with commas
    edge      9f2c51d0a3e84b7f9f2c51d0a3e84b7f  *                                            gateway
    billing   4b7a0c66e1d24f1c4b7a0c66e1d24f1c  acme,globex                                  reader,writer
    cleaner   certificate:cleaner.antiphon.svc  *                                            operator

Certificates are those of certificate_names.py. A NAME may have several lines, so that a
token can be rotated: add a line with the new token, distribute the token, remove the old line. Tokens are kept in
memory and compared as SHA-256 digests; they appear in no message or log.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from antiphon_core.config import SettingsError
from antiphon_core.errors import InvalidRequest, PermissionDenied, Unauthenticated, Unavailable
from antiphon_core.ids import is_reserved_tenant
from antiphon_core.rpc import certificate_names
from antiphon_core.rpc.call_metadata import TENANT_KEY
from antiphon_core.rpc.certificate_names import CERTIFICATE, Certificate, CertificateName
from antiphon_core.rpc.roles import Role, Roles, list_roles
from antiphon_core.rpc.watched import GRACE_S, Watched, read_secret

AUTHORIZATION_KEY = "authorization"
ALL_TENANTS = "*"
TOKEN_CHARS_MIN = 16  # shorter ones can be guessed; `openssl rand -hex 32` makes 64

Metadata = Iterable[tuple[str, str | bytes]]

_LINE = "NAME TOKEN TENANTS ROLES"
_TOKEN = re.compile(r"[!-~]+")  # the characters of a header


@dataclass(frozen=True, slots=True)
class Credential:
    """The tenants and roles of a caller. `tenants` is None for all tenants."""

    name: str
    tenants: frozenset[str] | None
    roles: Roles

    def covers(self, tenant: str) -> bool:
        return self.tenants is None or tenant in self.tenants


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials in a file, by the digests of tokens and by the names of certificates."""

    tokens: Mapping[bytes, Credential]
    certificates: Mapping[CertificateName, Credential]

    def has(self, name: str) -> bool:
        """Whether a line of the file has this NAME."""
        return any(each.name == name for each in (*self.tokens.values(), *self.certificates.values()))


class Guard:
    """Admits calls by a credentials file, which is read again when it changes.

    After the file has been unusable for `grace_s`, all calls are rejected. SettingsError: at the start the file is
    missing, open to other users or malformed; the message names the line.
    """

    def __init__(self, path: Path, *, grace_s: float = GRACE_S) -> None:
        self._credentials = Watched([path], lambda: read_credentials(path), setting="token_file", grace_s=grace_s)

    def identify(self, metadata: Mapping[str, str], certificate: Certificate) -> Credential:
        """The caller's credential. Unauthenticated: it has no token or certificate, or an unknown one. Unavailable: the
        file has been unusable for too long."""
        return identify(metadata, certificate, self._credentials.get())

    def admit_again(
        self, name: str, metadata: Mapping[str, str], certificate: Certificate, tenant: str, path: str, roles: Roles
    ) -> None:
        """Checks a stream that was begun with a credential of this name. Raises what `admit` raises, and Unavailable if
        another token of the same name has replaced the caller's: a caller with the new token calls again."""
        try:
            self.admit(metadata, certificate, tenant, path, roles)
        except Unauthenticated as error:
            if not self._credentials.get().has(name):
                raise
            raise Unavailable(f"The token of '{name}' was replaced. Call again with the new one.") from error

    def admit(
        self, metadata: Mapping[str, str], certificate: Certificate, tenant: str, path: str, roles: Roles
    ) -> Credential:
        """Checks that a caller may call the method `path`, which needs one of `roles`, for `tenant`, and returns its
        credential. Unauthenticated, PermissionDenied, Unavailable."""
        credential = self.identify(metadata, certificate)
        is_forbidden = is_reserved_tenant(tenant) and Role.GATEWAY not in credential.roles
        if is_forbidden or not credential.covers(tenant):
            raise PermissionDenied.of(credential.name, tenant=tenant)
        if credential.roles.isdisjoint(roles):
            raise PermissionDenied.of_roles(credential.name, method=path, roles=list_roles(roles))
        return credential


def identify(metadata: Mapping[str, str], certificate: Certificate, credentials: Credentials) -> Credential:
    """The credential of the token in `metadata`, or, without a token, of the peer's certificate. The time of the
    look-up may reveal something about digests, but no token can be computed from a digest."""
    scheme, _, token = metadata.get(AUTHORIZATION_KEY, "").partition(" ")
    if not token or scheme.lower() != "bearer":
        return _identify_certificate(certificate, credentials)
    credential = credentials.tokens.get(digest(token))
    if credential is None:
        raise Unauthenticated("The token of this call is unknown.")
    return credential


def _identify_certificate(certificate: Certificate, credentials: Credentials) -> Credential:
    for name in certificate_names.of_certificate(certificate):
        credential = credentials.certificates.get(name)
        if credential is not None:
            return credential
    raise Unauthenticated("This call carries no token. Send one as metadata, 'authorization: Bearer TOKEN'.")


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def text_metadata(metadata: Metadata | None) -> dict[str, str]:
    """The text metadata of a call; of several values with one key, the last. A value that is not UTF-8 is bytes, and
    none."""
    return {key: value for key, value in metadata or () if isinstance(value, str)}


def caller_metadata(metadata: Metadata | None) -> dict[str, str]:
    """The text metadata of a call, whose caller and tenant must be unambiguous: a proxy may have checked the other of
    two values. Unauthenticated: several tokens. InvalidRequest: several tenants, or one that is no text."""
    keys = Counter(key for key, _ in metadata or ())
    if keys[AUTHORIZATION_KEY] > 1:
        raise Unauthenticated(f"This call has several values of '{AUTHORIZATION_KEY}'. Send one.")
    if keys[TENANT_KEY] > 1:
        raise InvalidRequest(f"This call has several values of '{TENANT_KEY}'. Send one.", field=TENANT_KEY)
    if any(key == TENANT_KEY and isinstance(value, bytes) for key, value in metadata or ()):
        raise InvalidRequest(f"The value of '{TENANT_KEY}' is not UTF-8.", field=TENANT_KEY)
    return text_metadata(metadata)


def read_credentials(path: Path) -> Credentials:
    """Reads a credentials file. SettingsError: it is unusable."""
    tokens: dict[bytes, Credential] = {}
    certificates: dict[CertificateName, Credential] = {}
    for where, token, credential in _lines(path):
        if token.startswith(CERTIFICATE):
            name = certificate_names.parse(token.removeprefix(CERTIFICATE), where)
            first = certificates.setdefault(name, credential)
        else:
            first = tokens.setdefault(digest(check_token(token, where)), credential)
        if first is not credential:
            raise SettingsError(f"{where}: an earlier line has the same token.")
    if not tokens and not certificates:
        raise SettingsError(f"{path} holds no credentials. A line is {_LINE}, such as 'edge ... * gateway'.")
    return Credentials(tokens, certificates)


def _lines(path: Path) -> Iterator[tuple[str, str, Credential]]:
    """Yields (location, token, credential) of each line that is neither empty nor a comment."""
    for number, line in enumerate(read_secret(path, "the credentials file").splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            where = f"{path}, line {number}"
            words = line.split()
            if len(words) != 4:
                raise SettingsError(f"{where}: {len(words)} words instead of four, {_LINE}.")
            name, token, tenants, roles = words
            yield where, token, Credential(name, _tenants(tenants, where), _roles(roles, where))


def _tenants(word: str, where: str) -> frozenset[str] | None:
    tenants = frozenset(word.split(","))
    if "" in tenants or (ALL_TENANTS in tenants and len(tenants) > 1):
        raise SettingsError(f"{where}: TENANTS must be '*' or tenants with commas between them.")
    return None if ALL_TENANTS in tenants else tenants


def _roles(word: str, where: str) -> Roles:
    roles = frozenset(word.split(","))
    if not roles <= set(Role):
        raise SettingsError(f"{where}: ROLES must be some of {list_roles(Role)}, with commas between them.")
    return frozenset(map(Role, roles))


def check_token(token: str, where: str) -> str:
    """Returns `token` if it is valid. SettingsError: it has characters that a header cannot have, or is too short."""
    if not _TOKEN.fullmatch(token):
        raise SettingsError(f"{where}: a token is printable ASCII without spaces.")
    if len(token) < TOKEN_CHARS_MIN:
        raise SettingsError(f"{where}: a token needs {TOKEN_CHARS_MIN} characters at least.")
    return token
