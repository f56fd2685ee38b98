"""The names under which a model is shown tools: a model knows no namespaces, so a name has its namespace before it.

The tools of a server have the label of the server before their names, always: two servers may have tools of the same
name, and one of them must not take the other's calls. Such names are made fit for every model family. A name that does
not fit is cut, and has a digest at its end.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from antiphon_core.jsons import Object
from antiphon_core.limits import TOOL_NAME_CHARS_MAX

_SEPARATOR = "__"
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST_DIGITS = 8


def shown_name(name: str, namespace: str | None) -> str:
    """The name under which a model is shown a tool."""
    return f"{namespace}{_SEPARATOR}{name}" if namespace else name


def server_tool_name(label: str, name: str) -> str:
    """The name under which a model is shown a tool of a server."""
    whole = label_prefix(label) + name
    fit = _UNFIT.sub("_", whole)
    if fit == whole and len(whole) <= TOOL_NAME_CHARS_MAX:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST_DIGITS]
    return f"{fit[: TOOL_NAME_CHARS_MAX - _DIGEST_DIGITS - 1]}_{digest}"


def label_prefix(label: str) -> str:
    """The beginning of the names of all tools of a server."""
    return label + _SEPARATOR


def shown_names(declared: Object) -> Iterator[str]:
    """The names under which a model is shown a tool, or the tools of a namespace, from its valid declaration. A tool
    that OpenAI defines is called by its type."""
    if declared["type"] == "namespace":
        yield from (shown_name(inner["name"], declared["name"]) for inner in declared["tools"])
    else:
        yield declared["name"] if "name" in declared else declared["type"]
