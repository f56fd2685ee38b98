"""Fails a test of fetching that connects to another machine or resolves a host name."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest

_left: list[str] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = str(arguments[1][0])
        if not ip_address(host.partition("%")[0]).is_loopback:
            _left.append(f"connect to {host}")
    elif event == "socket.getaddrinfo" and not _is_address(arguments[0]):
        _left.append(f"look-up of {arguments[0]!r}")


def _is_address(host: Any) -> bool:
    """Whether the host needs no name server: an address in any spelling of the C library, or this machine."""
    text = host.decode() if isinstance(host, bytes) else str(host)
    if text in ("None", "localhost") or ":" in text:
        return True
    try:
        return bool(socket.inet_aton(text))
    except OSError:
        return False


sys.addaudithook(_audit)


@pytest.fixture(autouse=True)
def nothing_leaves_this_machine() -> Iterator[None]:
    _left.clear()
    yield
    assert _left == []
