"""An HTTP server in a thread of its own that answers every request with bytes without an end, as fast as they are read.

It writes to plain sockets: what it sends need not be HTTP.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
REQUEST_BYTES_MAX = 2**16


def endless(block: bytes) -> Callable[[], Iterable[bytes]]:
    """Returns blocks of 100 KB of this text, without an end."""
    return lambda: repeat(block * (100_000 // len(block) + 1))


@dataclass
class Flood:
    """The server. Each answer begins with `head`. `sent_bytes` counts what was written behind it, `cut_off` how many
    clients closed their connections."""

    head: bytes
    blocks: Callable[[], Iterable[bytes]]
    port: int = 0
    sent_bytes: int = 0
    cut_off: int = 0
    requests: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            self.requests.append(client.recv(REQUEST_BYTES_MAX))
            client.sendall(self.head)
            for block in self.blocks():
                client.sendall(block)
                self.sent_bytes += len(block)
            client.recv(1)
        self.cut_off += 1


@contextmanager
def flooding(head: bytes, blocks: Callable[[], Iterable[bytes]]) -> Iterator[Flood]:
    """Runs a flood on a free port of this machine."""
    flood = Flood(head, blocks)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        flood.port = listening.getsockname()[1]
        threading.Thread(target=_serve, args=(listening, flood), daemon=True).start()
        yield flood
        listening.shutdown(socket.SHUT_RDWR)


def _serve(listening: socket.socket, flood: Flood) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listening.accept()
            threading.Thread(target=flood.answer, args=(client,), daemon=True).start()
