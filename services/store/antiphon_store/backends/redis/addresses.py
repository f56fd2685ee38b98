"""Where the servers are: what follows the scheme of a URL, understood or refused.

    redis://[USER:PASSWORD@]HOST[:PORT][/DB]            rediss:// the same over TLS
    redis+sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT],.../SERVICE[/DB]
    redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT],...

with ?tls=true behind the last two. Credentials are percent-encoded.
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
    "redis": Topology.SINGLE,
    "rediss": Topology.SINGLE,
    "redis+sentinel": Topology.SENTINEL,
    "redis+cluster": Topology.CLUSTER,
}
_TLS: dict[str, tuple[str, ...]] = {"tls": ("true", "false")}
_KNOWN_OPTIONS: dict[Topology, dict[str, tuple[str, ...]]] = {
    Topology.SINGLE: {},
    Topology.SENTINEL: _TLS,
    Topology.CLUSTER: _TLS,
}
_PORTS = {Topology.SINGLE: 6379, Topology.SENTINEL: 26379, Topology.CLUSTER: 6379}


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
    """The address in a URL. SettingsError: with what to write instead; a password never appears in it."""
    topology = _SCHEMES[scheme]
    location, _, query = rest.partition("?")
    credentials, _, location = location.rpartition("@")
    hosts, _, path = location.partition("/")
    username, _, password = credentials.partition(":")
    options = _options(scheme, query)
    service, database = _path(scheme, topology, path)
    return Address(
        topology=topology,
        nodes=tuple(_node(scheme, host, _PORTS[topology]) for host in _hosts(scheme, topology, hosts)),
        service=service,
        database=database,
        username=unquote(username) or None,
        password=unquote(password) or None,
        tls=scheme == "rediss" or options.get("tls") == "true",
    )


def _hosts(scheme: str, topology: Topology, hosts: str) -> list[str]:
    found = hosts.split(",")
    if not all(found) or (topology is Topology.SINGLE and len(found) > 1):
        several = "" if topology is Topology.SINGLE else ",HOST:PORT"
        raise SettingsError(f"'{scheme}://': write {scheme}://HOST:PORT{several}.")
    return found


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


def _options(scheme: str, query: str) -> dict[str, str]:
    known = _KNOWN_OPTIONS[_SCHEMES[scheme]]
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name, value in options.items():
        if value not in known.get(name, ()):
            words = [f"{each}={choice}" for each, choices in known.items() for choice in choices]
            raise SettingsError(f"'{scheme}://...?{name}={value}': known are {', '.join(words) or 'no options here'}.")
    return options
