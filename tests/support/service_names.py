"""Names of services for processes on this machine, as the DNS of a cluster has them: a name leads to several addresses,
which change while processes that look it up run.

    names = ServiceNames(folder / "hosts")
    names.set({"store": ["127.77.0.1", "127.77.0.2"]})
    Command("serve", ..., environ=names.environ)     # finds "store" by getaddrinfo

nss_wrapper answers getaddrinfo from the file of the names instead of the machine's hosts file.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.support.debian import found_or_installed

PACKAGE = "libnss-wrapper"


class ServiceNames:
    """The names and addresses in one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._times = itertools.count(1)
        self.environ = {
            "LD_PRELOAD": str(_library()),
            "NSS_WRAPPER_HOSTS": str(path),
            # gRPC's other resolver, c-ares, asks DNS servers itself and reads no file but the machine's own.
            "GRPC_DNS_RESOLVER": "native",
        }

    def set(self, names: Mapping[str, Sequence[str]]) -> None:
        """Replaces all names. A name without addresses is not found."""
        written = self._path.with_suffix(".new")
        written.write_text("".join(f"{address} {name}\n" for name, found in names.items() for address in found))
        # Read again when its time in whole seconds differs.
        time_s = next(self._times)
        os.utime(written, (time_s, time_s))
        written.rename(self._path)


@cache
def _library() -> Path:
    return found_or_installed(_find, PACKAGE)


def _find() -> Path | None:
    return next(Path("/usr/lib").glob("*-linux-gnu*/libnss_wrapper.so"), None)
