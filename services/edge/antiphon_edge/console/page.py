"""The HTML document of the console, and its Content-Security-Policy.

The policy allows scripts and styles from this server, and one inline script by its hash: the import map. It has no
`unsafe-*` source and no other server, so a model's text can neither run code nor leak data by loading a URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from antiphon_core.jsons import dumps
from antiphon_edge.console.assets import ICON, LIBRARIES, SCRIPT, STYLE, Assets, integrity

_POLICY = (
    "default-src 'self'",
    "img-src 'self' data:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
)


@dataclass(frozen=True, slots=True)
class Page:
    """The document, and the headers with which it is sent."""

    body: bytes
    headers: Mapping[str, str]


def page(assets: Assets, *, trace_url: str) -> Page:
    """Makes the document. Its paths are relative, so that the console works below a path prefix of a proxy. `trace_url`
    is the setting `console_trace_url`."""
    import_map = dumps({"imports": {name: f"./{_at(assets, path)}" for name, path in LIBRARIES.items()}})
    policy = (*_POLICY, f"script-src 'self' '{integrity(import_map)}'")
    return Page(
        _document(assets, import_map.decode(), trace_url).encode(),
        {
            "Content-Security-Policy": "; ".join(policy),
            "Cache-Control": "no-cache",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        },
    )


def _document(assets: Assets, import_map: str, trace_url: str) -> str:
    preloads = "\n".join(f'<link rel="modulepreload" href="{_at(assets, path)}">' for path in LIBRARIES.values())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Antiphon</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="antiphon-trace-url" content="{escape(trace_url)}">
<link rel="icon" type="image/svg+xml" href="{_at(assets, ICON)}">
<link rel="stylesheet" href="{_at(assets, STYLE)}">
<script type="importmap">{import_map}</script>
{preloads}
</head>
<body>
<div id="console"></div>
<noscript>The console needs JavaScript. Everything in the console can also be done over the HTTP API.</noscript>
<script type="module" src="{_at(assets, SCRIPT)}"></script>
</body>
</html>
"""


def _at(assets: Assets, path: str) -> str:
    return f"console/{assets.version}/{path}"
