"""The files of the console as they are sent, each with its content type and its compressed form.

All files are served below a path that contains a hash over all of them, so a browser may cache them forever.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from antiphon_edge.console.scripts import link

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
    """One file, also compressed with gzip."""

    content_type: str
    body: bytes
    compressed: bytes


@dataclass(frozen=True, slots=True)
class Assets:
    """All files, by their path below `version`. The version is a hash over all files."""

    version: str
    files: Mapping[str, Asset]


@cache
def assets() -> Assets:
    """Reads the files once, at the first request for the console, so that they do not delay the start."""
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
    yield SCRIPT, link(ENTRY, lambda path: (root / "app" / path).read_text("utf-8")).encode()
    yield STYLE, b"".join((root / "style" / name).read_bytes() for name in STYLES)
    for name in (*LIBRARIES.values(), ICON):
        yield name, (root / name).read_bytes()


def integrity(body: bytes) -> str:
    """The hash of an inline script, in the form of a Content-Security-Policy."""
    return f"sha256-{b64encode(sha256(body).digest()).decode()}"
