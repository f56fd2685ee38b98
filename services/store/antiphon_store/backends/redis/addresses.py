"""Parses the part of a URL after its scheme: the addresses of the servers.

    redis://[USER:PASSWORD@]HOST[:PORT][/DB]            rediss:// the same over TLS
    redis+sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT],.../SERVICE[/DB]
    redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT],...

with ?tls=true after the last two. Credentials are percent-encoded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import unquote, urlsplit

from antiphon_core.config import SettingsError

HostPort = tuple[str, int]


class Topology(StrEnum):
    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


_SCHEMES = {
    "redis": (Topology.SINGLE, 6379),
    "rediss": (Topology.SINGLE, 6379),
    "redis+sentinel": (Topology.SENTINEL, 26379),
    "redis+cluster": (Topology.CLUSTER, 6379),
}


@dataclass(frozen=True, slots=True)
class Address:
    topology: Topology
    nodes: tuple[HostPort, ...]
    service: str | None = None
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    has_tls: bool = False


def parse_address(scheme: str, rest: str) -> Address:
    """The address in a URL. SettingsError: its message says what to write instead, and never has the password."""
    topology, default_port = _SCHEMES[scheme]
    credentials, _, location = rest.rpartition("@")  # first: a password that is not encoded may have any character
    location, _, query = location.partition("?")
    hosts, _, path = location.partition("/")
    username, _, password = credentials.partition(":")
    nodes = hosts.split(",")
    if not all(nodes) or (topology is Topology.SINGLE and len(nodes) > 1):
        several = "" if topology is Topology.SINGLE else ",HOST:PORT"
        raise SettingsError(f"'{scheme}://': write {scheme}://HOST:PORT{several}.")
    service, database = _path(scheme, topology, path)
    return Address(
        topology=topology,
        nodes=tuple(_node(scheme, each, default_port) for each in nodes),
        service=service,
        database=database,
        username=unquote(username) or None,
        password=unquote(password) or None,
        has_tls=scheme == "rediss" or _has_tls(scheme, topology, query),
    )


def _node(scheme: str, host: str, default_port: int) -> HostPort:
    try:
        url = urlsplit(f"//{host}")
    except ValueError as error:
        raise SettingsError(f"'{scheme}://{host}': write HOST or HOST:PORT.") from error
    try:
        port = default_port if url.port is None and not host.endswith(":") else url.port
    except ValueError:
        port = None
    if not port:
        raise SettingsError(f"'{scheme}://{host}': '{host.rpartition(':')[2]}' is no port.")
    return url.hostname or "", port


def _path(scheme: str, topology: Topology, path: str) -> tuple[str | None, int]:
    service, database = None, path
    if topology is Topology.SENTINEL:
        service, _, database = path.partition("/")
        if not service:
            raise SettingsError(f"'{scheme}://': write {scheme}://HOST:PORT,HOST:PORT/SERVICE, as in sentinel.conf.")
    if database and (topology is Topology.CLUSTER or not database.isdecimal()):
        raise SettingsError(f"'{scheme}://.../{database}': there is no such database.")
    return service, int(database or 0)


def _has_tls(scheme: str, topology: Topology, query: str) -> bool:
    known = {"": False} if topology is Topology.SINGLE else {"": False, "tls=true": True, "tls=false": False}
    if query not in known:
        raise SettingsError(f"'{scheme}://...?{query}': known are {', '.join(list(known)[1:]) or 'no options here'}.")
    return known[query]
