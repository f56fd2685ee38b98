"""Free ports for servers that need a fixed port, or restart on the same port.

Each port is bound here without listening, so the system gives it to no other process while this process lives.
SO_REUSEADDR lets the server bind it nevertheless.
"""

from __future__ import annotations

import atexit
import socket
from contextlib import ExitStack, suppress

HOST = "127.0.0.1"

_kept = ExitStack()
atexit.register(_kept.close)


def free_ports(count: int, *, and_above: int = 0) -> list[int]:
    """Returns free ports. With `and_above`, the ports that are higher by that number are free as well."""
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
    """Binds the port, or any port for 0, and returns it. OSError: the port is in use."""
    with ExitStack() as stack:
        kept = stack.enter_context(socket.socket())
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind((HOST, port))
        bound: int = kept.getsockname()[1]
        _kept.push(stack.pop_all())
    return bound
