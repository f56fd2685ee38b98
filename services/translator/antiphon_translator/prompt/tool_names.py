"""The names under which a model is shown tools: a model knows no namespaces, so a name has its namespace before it."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon_core.jsons import Object

_SEPARATOR = "__"


def shown_name(name: str, namespace: str | None) -> str:
    """The name under which a model is shown a tool."""
    return f"{namespace}{_SEPARATOR}{name}" if namespace else name


def shown_names(declared: Object) -> Iterator[str]:
    """The names under which a model is shown a tool, or the tools of a namespace, from its valid declaration. A tool
    that OpenAI defines is called by its type."""
    if declared["type"] == "namespace":
        yield from (shown_name(inner["name"], declared["name"]) for inner in declared["tools"])
    else:
        yield declared["name"] if "name" in declared else declared["type"]
