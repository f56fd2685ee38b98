"""The ports of a service whose workers listen on them together.

The supervisor binds each port and never listens: the port stays the service's while workers come and go, and a 0 has
become a number that all workers can be told. Workers bind it again with SO_REUSEPORT, which the kernel allows to
processes of the same user. So another service of that user could join in by mistake; before it reserves a port, the
supervisor asks for it alone, which fails while anybody listens there.
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace

from antiphon.settings import Settings

LISTENING = ("store", "translator", "edge")
"""Targets that have a port, each in the section of its name."""


class ReservedPorts:
    """Holds the ports of the targets until it is closed."""

    def __init__(self) -> None:
        self._sockets = ExitStack()

    def reserve(self, settings: Settings, targets: Collection[str]) -> Settings:
        """The settings with the ports that were reserved. OSError: somebody else listens on one."""
        for name in LISTENING:
            if name in targets:
                section = getattr(settings, name)
                port = self._bind_all(section.host, section.port)
                settings = replace(settings, **{name: replace(section, port=port)})
        return settings

    def close(self) -> None:
        self._sockets.close()

    def _bind_all(self, host: str, port: int) -> int:
        """Reserves a port on all addresses of a host; which."""
        if port:
            for family, address in _addresses(host):
                with socket.socket(family) as alone:
                    _bind(alone, address, port)
        for family, address in _addresses(host):
            reserved = self._sockets.enter_context(socket.socket(family))
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            port = _bind(reserved, address, port)
        return port


def _addresses(host: str) -> list[tuple[int, str]]:
    """The addresses of a host, each with its family, as `asyncio.loop.create_server` finds them."""
    found = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(family, str(address[0])) for family, _type, _protocol, _name, address in found]


def _bind(bound: socket.socket, address: str, port: int) -> int:
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier run may still be ending
    if bound.family == socket.AF_INET6:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        bound.bind((address, port))
    except OSError as error:
        raise OSError(error.errno, f"Cannot listen on {address} port {port}: {error.strerror}") from error
    return int(bound.getsockname()[1])
