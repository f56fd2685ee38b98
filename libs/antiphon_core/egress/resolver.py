"""A DNS resolver with threads of its own.

The system's lookup cannot be cancelled: it blocks its thread while a name server does not answer. Blocked threads in
the event loop's default executor would delay all other work there.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult


class Resolver(AbstractResolver):
    """Resolves names as the system does: by /etc/hosts, the DNS of the cluster and public DNS."""

    def __init__(self, lookups_max: int) -> None:
        """`lookups_max`: the lookups at once; further ones wait."""
        self._threads = ThreadPoolExecutor(lookups_max, thread_name_prefix="egress-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a name. OSError: it has none, or the lookup failed."""
        try:
            found = await asyncio.get_running_loop().run_in_executor(
                self._threads, socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG
            )
        except UnicodeError as error:  # a label that is empty, or longer than 63 characters
            raise OSError(socket.EAI_NONAME, "this can be no name of a host") from error
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
