"""The files of the console, read once, each with its type and its compressed form.

All of them lie below one path that names the content of all of them together. A browser may keep what it has got
from there for ever, and files refer to each other by relative paths, so nothing is rewritten: no build step.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).with_name("web")
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
"""Files of other types, such as licences, stay where they are."""
_VERSION_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent."""

    content_type: str
    body: bytes
    compressed: bytes


@dataclass(frozen=True, slots=True)
class Assets:
    """All files by their path below `version`, which changes with the content of any of them."""

    version: str
    files: Mapping[str, Asset]

    @property
    def modules(self) -> list[str]:
        """The paths of all scripts, in a fixed order."""
        return [path for path in self.files if path.endswith(".js")]


@cache
def assets() -> Assets:
    """Reads the files. The first request for the console does; a start costs nothing."""
    return read(ROOT)


def read(root: Path) -> Assets:
    """Reads the files below a folder."""
    files: dict[str, Asset] = {}
    digest = sha256()
    for path in sorted(each for each in root.rglob("*") if each.suffix in _TYPES):
        name, body = path.relative_to(root).as_posix(), path.read_bytes()
        digest.update(f"{name}\0{len(body)}\0".encode() + body)
        files[name] = Asset(_TYPES[path.suffix], body, gzip.compress(body, 9, mtime=0))
    return Assets(digest.hexdigest()[:_VERSION_CHARACTERS], files)


def integrity(body: bytes) -> str:
    """The hash of an inline script, as a Content-Security-Policy allows it."""
    return f"sha256-{b64encode(sha256(body).digest()).decode()}"
