"""The ports that all workers of a service listen on.

The supervisor binds each port and never listens on it. So the service keeps the port while workers restart, and port 0
becomes one number for all workers. Workers bind the port again with SO_REUSEPORT, which the kernel allows to all
processes of the same user. Another service of that user could therefore share the port by mistake. To prevent this, the
supervisor first binds the port without SO_REUSEPORT, which fails while another process listens there.
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import replace

from antiphon.settings import Settings

LISTENING = ("store", "translator", "tools", "edge")
"""Targets that listen. The port of each is in the section of the settings that has its name."""


class ReservedPorts:
    """Holds the ports of the targets until it is closed."""

    def __init__(self) -> None:
        self._sockets = ExitStack()

    def reserve(self, settings: Settings, targets: Collection[str]) -> Settings:
        """Reserves the ports of `targets`, and returns the settings with their numbers. OSError: another process
        listens on one of them."""
        for name in LISTENING:
            if name in targets:
                section = getattr(settings, name)
                port = self._bind_all(section.host, section.port)
                settings = replace(settings, **{name: replace(section, port=port)})
        return settings

    def close(self) -> None:
        self._sockets.close()

    def _bind_all(self, host: str, port: int) -> int:
        """Reserves a port on all addresses of a host, and returns its number; with port 0, any free port."""
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
