"""Service names for processes on this machine, like the DNS of a cluster: a name has several addresses, which change
while processes that resolve it run.

    names = ServiceNames(folder)
    names.set({"store": ["127.77.0.1", "127.77.0.2"]})
    Command("serve", ..., prefix=names.inside, environ=names.environ)     # finds "store" by getaddrinfo

Each process has a mount namespace in which the file of names is mounted at /etc/hosts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.children import as_user
from tests.support.namespaces import UNSHARE_MOUNTS

_SIZE_BYTES = 4096
_MOUNT = 'for file in hosts nsswitch.conf; do mount --bind "$0/$file" /etc/$file || exit 1; done; exec "$@"'


class ServiceNames:
    """The names and addresses in one file of `folder`."""

    environ: Mapping[str, str] = {"GRPC_DNS_RESOLVER": "native"}  # gRPC's other resolver, c-ares, queries DNS servers

    def __init__(self, folder: Path) -> None:
        self._hosts = folder / "hosts"
        self.inside: Sequence[str] = (*UNSHARE_MOUNTS, *as_user(), "sh", "-c", _MOUNT, str(folder))
        """The start of a command line that resolves the names. Its process becomes the command."""
        (folder / "nsswitch.conf").write_text("hosts: files\n")
        self._hosts.write_bytes(b"\n" * _SIZE_BYTES)
        self.set({})

    def set(self, names: Mapping[str, Sequence[str]]) -> None:
        """Replaces all names. A name without addresses is not found.

        Writes in place, because a mount is bound to the file, and in one block, so that a reader never sees half of the
        names.
        """
        lines = [
            f"{address} {name}\n" for name, found in {"localhost": ["127.0.0.1"], **names}.items() for address in found
        ]
        text = "".join(lines).encode().ljust(_SIZE_BYTES, b"\n")
        assert len(text) == _SIZE_BYTES, "too many names for one block"
        with self._hosts.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), text, 0)
