"""Parses the part of a URL after its scheme: the addresses of the servers.

    redis://[USER:PASSWORD@]HOST[:PORT][/DB]            rediss:// the same over TLS
    redis+sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT],.../SERVICE[/DB]
    redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT],...

with ?tls=true after the last two. Credentials are percent-encoded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qsl, unquote

from antiphon_core.config import SettingsError

Node = tuple[str, int]


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
    nodes: tuple[Node, ...]
    service: str | None = None
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False


def parse_address(scheme: str, rest: str) -> Address:
    """The address in a URL. SettingsError: its message says what to write instead, and never has the password."""
    topology, default_port = _SCHEMES[scheme]
    location, _, query = rest.partition("?")
    credentials, _, location = location.rpartition("@")
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
        tls=scheme == "rediss" or _has_tls(scheme, topology, query),
    )


def _node(scheme: str, host: str, default_port: int) -> Node:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):  # an IPv6 address without a port ends with a bracket
        return host.strip("[]"), default_port
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        raise SettingsError(f"'{scheme}://{host}': '{port}' is no port.")
    return name.strip("[]"), int(port)


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
    known = ["no options here"] if topology is Topology.SINGLE else ["tls=true", "tls=false"]
    for name, value in parse_qsl(query, keep_blank_values=True):
        if f"{name}={value}" not in known:
            raise SettingsError(f"'{scheme}://...?{name}={value}': known are {', '.join(known)}.")
    return dict(parse_qsl(query)).get("tls") == "true"
