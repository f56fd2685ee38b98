"""Ports for servers that have to be told theirs, or are started again where they were.

The system gives a port to nobody else while this process lives: it is bound here as well, without listening, and
SO_REUSEADDR lets the server have it all the same.
"""

from __future__ import annotations

import atexit
import socket
from contextlib import ExitStack, suppress

HOST = "127.0.0.1"

_kept = ExitStack()
atexit.register(_kept.close)


def free_ports(count: int, *, and_above: int = 0) -> list[int]:
    """Ports that nobody listens on; with `and_above`, the ports so far above them are free as well."""
    found: list[int] = []
    while len(found) < count:
        port = _keep(0)
        if not and_above:
            found.append(port)
        elif port + and_above < 2**16:
            with suppress(OSError):
                _keep(port + and_above)
                found.append(port)
    return found


def _keep(port: int) -> int:
    """Binds it, or any for 0; which. OSError: somebody else has it."""
    with ExitStack() as stack:
        kept = stack.enter_context(socket.socket())
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind((HOST, port))
        bound: int = kept.getsockname()[1]
        _kept.push(stack.pop_all())
    return bound
