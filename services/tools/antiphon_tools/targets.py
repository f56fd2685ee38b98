"""The server of a call: what a request names, looked up and checked. No I/O but for the operator's files.

An operator's secret goes to the operator's URL only, so a request that names a URL is never given one, whatever its
label. A request does not name a URL of the operator either: it would leave out the operator's tools, pins and approval.
A tenant cannot tell a server that it may not use from one that does not exist.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from yarl import URL

from antiphon_core.config import SettingsError
from antiphon_core.egress.urls import EgressRules, UrlRejected, check_url, is_same_resource, permits_of, schemes_of
from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.tools import Credentials, ToolServer
from antiphon_core.rpc.watched import Watched
from antiphon_tools.mcp.request_headers import credential_headers
from antiphon_tools.server_file import CLIENT, OperatorServer, ServerFile, read_server_file
from antiphon_tools.settings import ToolsSettings


@dataclass(frozen=True, slots=True)
class Target:
    """A server that may be connected to. `operator` is None for one that a request names by its URL."""

    identity: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    operator: OperatorServer | None = None

    @property
    def metric_name(self) -> str:
        return self.operator.name if self.operator is not None else CLIENT

    @property
    def credential_digest(self) -> str:
        """Tells credentials apart, in keys of caches."""
        pairs = sorted(self.headers.items())
        return hashlib.sha256(repr(pairs).encode()).hexdigest()

    def permits(self, tool: str) -> bool:
        return self.operator is None or self.operator.permits(tool)


class Targets:
    """The servers that requests may use, by the settings and the operator's file."""

    def __init__(self, settings: ToolsSettings) -> None:
        """SettingsError: the operator's file is unusable."""
        self._rules = client_rules(settings)
        self._file = _WatchedFile(settings.servers) if settings.servers is not None else None

    def find(self, tenant: str, server: ToolServer, credentials: Credentials) -> Target:
        """InvalidRequest: the server does not exist, or this request may not use it."""
        if server.url:
            return self._client_target(tenant, server, credentials)
        operator = self._servers().get(server.label)
        if operator is None or not operator.serves(tenant):
            raise InvalidRequest(
                f"There is no tool server '{server.label}' here. Name its 'server_url', or ask the operator for it.",
                field="server_label",
                code="tool_server_not_found",
            )
        return _operator_target(operator, credentials)

    def names(self, tenant: str) -> tuple[str, ...]:
        """The operator's servers that a tenant may use."""
        return tuple(name for name, server in self._servers().items() if server.serves(tenant))

    def _client_target(self, tenant: str, server: ToolServer, credentials: Credentials) -> Target:
        if self._rules is None:
            raise _rejected("this server does not connect to tool servers that requests name (tools.client_hosts)")
        try:
            url = check_url(server.url, self._rules)
        except UrlRejected as error:
            raise _rejected(f"it {error}") from error
        for operator in self._servers().values():
            if operator.serves(tenant) and is_same_resource(URL(operator.url), url):
                raise _rejected(f"it is the URL of the operator's server '{operator.name}', whose label alone names it")
        return Target(f"{CLIENT} {url}", str(url), credential_headers(credentials))

    def _servers(self) -> Mapping[str, OperatorServer]:
        return self._file.servers() if self._file is not None else {}


class _WatchedFile:
    """The operator's servers, read again when their file changes, or one that it names."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._paths = read_server_file(path).paths
        self._watched = self._watch()

    def servers(self) -> Mapping[str, OperatorServer]:
        found = self._watched.get()
        if found.paths != self._paths:  # it names other files now, which have to be watched, too
            self._paths = found.paths
            with suppress(SettingsError):  # it changed again just now: the next look reports it
                self._watched = self._watch()
        return found.servers

    def _watch(self) -> Watched[ServerFile]:
        return Watched(self._paths, lambda: read_server_file(self._path), setting="servers")


def client_rules(settings: ToolsSettings) -> EgressRules | None:
    """The rules for servers that requests name; None if they may name none."""
    if not settings.client_hosts:
        return None
    hosts = () if "*" in settings.client_hosts else tuple(host.lower() for host in settings.client_hosts)
    permits = permits_of(private_addresses=settings.client_private_addresses)
    return EgressRules(permits, hosts, schemes_of(http=settings.client_http))


def _operator_target(operator: OperatorServer, credentials: Credentials) -> Target:
    if operator.secret:
        _require_none(credentials, operator)
        credentials = Credentials(authorization=operator.secret)
    return Target(f"{operator.name} {operator.url}", operator.url, credential_headers(credentials), operator)


def _require_none(credentials: Credentials, operator: OperatorServer) -> None:
    """InvalidRequest: the request has credentials, or other headers, which the server would believe to be the
    operator's."""
    for field_name in ("authorization", "headers"):
        if getattr(credentials, field_name):
            raise InvalidRequest(
                f"'{field_name}' must be left out: the tool server '{operator.name}' has a secret of the operator's.",
                field=field_name,
                code="invalid_value",
            )


def _rejected(why: str) -> InvalidRequest:
    return InvalidRequest(f"'server_url' cannot be used: {why}.", field="server_url", code="tool_server_not_allowed")
