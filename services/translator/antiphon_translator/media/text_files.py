"""Text files in a request: which files are text, and how the prompt shows one to the model.

A file is text if its media type says so, or its name if the media type is unspecific. The content must be UTF-8, and
have no control characters that no text has. Any other file is rejected: the text of a PDF, for example, depends on the
program that extracts it. A file is shown as:

    <file name="notes.md">
    # Notes
    </file>
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from antiphon_core.jsons import dumps

TEXT_TYPES = frozenset(
    """
    application/json application/ld+json application/jsonl application/x-ndjson application/x-jsonlines application/xml
    application/xhtml+xml application/yaml application/x-yaml application/toml application/javascript
    application/x-javascript application/typescript application/ecmascript application/sql application/graphql
    application/x-sh application/x-shellscript application/x-httpd-php application/x-python application/x-python-code
    application/x-tex application/x-latex application/csv application/x-ipynb+json image/svg+xml message/rfc822
    """.split()
)
"""Media types of text, besides text/* and all that end with +json or +xml."""
UNSPECIFIC_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/unknown"})
"""Media types that do not say what a file is: its name decides."""
EXTENSIONS = frozenset(
    """
    txt text md markdown rst adoc tex csv tsv json jsonl ndjson json5 ipynb xml xsd xsl html htm xhtml svg yaml yml toml
    ini cfg conf properties env log diff patch eml srt vtt
    py pyi pyx js mjs cjs jsx ts tsx vue svelte css scss sass less c h cc cpp cxx hh hpp cu cuh m mm java kt kts scala
    groovy gradle go rs rb php pl pm lua r jl swift dart cs fs fsx vb ex exs erl hrl hs ml mli clj cljs elm zig nim d v
    sv vhd sh bash zsh fish ps1 bat cmd sql graphql gql proto thrift tf tfvars hcl nix cmake mk bzl jinja j2 tmpl
    """.split()
)
NAMES = frozenset("makefile dockerfile containerfile jenkinsfile license readme changelog notice".split())
"""Names of text files that have no extension, in lower case."""

_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # ESC is permitted: coloured logs have it
_PDF = b"%PDF-"


class NotText(Exception):
    """The file cannot be shown as text. The message says why, and can be shown to the caller."""


def read(content: bytes, *, media_type: str, name: str) -> str:
    """The text of a file. NotText: the file is of another kind, or is not UTF-8."""
    if content.startswith(_PDF):
        raise NotText("it is a PDF")
    if not _is_declared_text(media_type, name):
        checked = media_type if media_type not in UNSPECIFIC_TYPES else f"'{name}'"
        raise NotText(f"{checked} is not known to be text")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotText("it is not UTF-8") from error
    if _NOT_TEXT.search(text):
        raise NotText("it has control characters that no text has")
    return text


def show_file(text: str, name: str) -> str:
    """A file's text as the model reads it."""
    ending = "" if text.endswith("\n") else "\n"
    return f"<file name={dumps(name).decode()}>\n{text}{ending}</file>"


def _is_declared_text(media_type: str, name: str) -> bool:
    if media_type in UNSPECIFIC_TYPES:
        last = PurePosixPath(name.lower()).name
        return last.rpartition(".")[2] in (EXTENSIONS if "." in last else NAMES)
    return media_type.startswith("text/") or media_type in TEXT_TYPES or media_type.endswith(("+json", "+xml"))
