"""Endpoints: parsing of host, port and authority."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TARGET = re.compile(
    r"(?:dns:(?://[^/]*/)?)?(?P<address>(?:\[(?P<ipv6>[0-9a-fA-F:.%\w]+)\]|(?P<name>[^:/\[\]]+)):(?P<port>\d+))"
)


@dataclass(frozen=True, slots=True)
class Target:
    host: str
    port: int
    authority: str
    address: str = ""
    """An IP address of `host`; if empty, the system resolves `host` at each attempt to connect."""


def read_targets(endpoint: str) -> tuple[Target, ...]:
    """Parses an endpoint of one name, as `read_target` does, or the fixed addresses of several servers:
    `ipv4:10.0.0.1:50051,10.0.0.2:50051`. ValueError: it is neither."""
    scheme, _, listed = endpoint.partition(":")
    if scheme not in ("ipv4", "ipv6"):
        return (read_target(endpoint),)
    return tuple(read_target(address) for address in listed.split(","))


def read_target(endpoint: str) -> Target:
    """Parses `host:port` or `dns:///host:port`, with an IPv6 address in brackets. ValueError: it is neither."""
    match = _TARGET.fullmatch(endpoint)
    if match is None or not 0 < int(match["port"]) < 2**16 or not _is_resolvable(match["name"]):
        raise ValueError(f"not an endpoint, host:port or dns:///host:port: {endpoint!r}")
    return Target(match["ipv6"] or match["name"], int(match["port"]), match["address"])


def _is_resolvable(name: str | None) -> bool:
    """Whether resolvers take this name. They raise a UnicodeError for an empty label, and for one of 64 characters."""
    try:
        return name is None or bool(name.encode("idna"))
    except UnicodeError:
        return False
