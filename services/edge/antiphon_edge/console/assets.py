"""The files of the console as they are sent, each with its type and its compressed form.

All of them lie below one path that names the content of all of them together, so a browser may keep them for ever.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from antiphon_edge.console.scripts import linked

ROOT = Path(__file__).with_name("web")
ENTRY, SCRIPT = "main.js", "app.js"
STYLES, STYLE = ("tokens.css", "base.css", "views.css", "tree.css"), "style.css"
ICON = "icon.svg"
LIBRARIES = {
    "preact": "vendor/preact.js",
    "preact/hooks": "vendor/preact-hooks.js",
    "@preact/signals-core": "vendor/signals-core.js",
    "@preact/signals": "vendor/signals.js",
    "htm": "vendor/htm.js",
}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_VERSION_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    content_type: str
    body: bytes
    compressed: bytes


@dataclass(frozen=True, slots=True)
class Assets:
    """All files by their path below `version`, which changes with the content of any of them."""

    version: str
    files: Mapping[str, Asset]


@cache
def assets() -> Assets:
    """Reads the files. The first request for the console does; a start costs nothing."""
    return read(ROOT)


def read(root: Path) -> Assets:
    """Reads the files below a folder."""
    files: dict[str, Asset] = {}
    digest = sha256()
    for name, body in _contents(root):
        digest.update(f"{name}\0{len(body)}\0".encode() + body)
        files[name] = Asset(_TYPES[Path(name).suffix], body, gzip.compress(body, 9, mtime=0))
    return Assets(digest.hexdigest()[:_VERSION_CHARACTERS], files)


def _contents(root: Path) -> Iterator[tuple[str, bytes]]:
    yield SCRIPT, linked(ENTRY, lambda path: (root / "app" / path).read_text("utf-8")).encode()
    yield STYLE, b"".join((root / "style" / name).read_bytes() for name in STYLES)
    for name in (*LIBRARIES.values(), ICON):
        yield name, (root / name).read_bytes()


def integrity(body: bytes) -> str:
    """The hash of an inline script, as a Content-Security-Policy allows it."""
    return f"sha256-{b64encode(sha256(body).digest()).decode()}"
