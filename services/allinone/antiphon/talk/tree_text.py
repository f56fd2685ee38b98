"""A tree of responses as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from antiphon.talk.visible import visible
from antiphon_core.jsons import Object

SIGNS = {
    "completed": "●",
    "in_progress": "◐",
    "queued": "○",
    "incomplete": "◒",
    "failed": "✗",
    "cancelled": "⊘",
    None: "·",  # deleted, or items added by hand
}
TEXT_CHARS_MAX = 60


def lines(nodes: Sequence[Object], *, marked: str = "", texts: Mapping[str, str] | None = None) -> Iterator[str]:
    """One line per node, in the order of the tree routes: parents before children. `texts` are the texts of some
    responses, by id. The node with the id `marked` is shown with an arrow."""
    depth_of_root = min((node["depth"] for node in nodes), default=0)
    for node in nodes:
        sign = SIGNS.get(node["status"], "?")
        indent = "  " * (node["depth"] - depth_of_root)
        text = shorten((texts or {}).get(node["id"], ""))
        here = "  ◀ here" if node["id"] == marked else ""
        yield f"{indent}{sign} {node['id']}{f'  {text}' if text else ''}{here}"


def shorten(text: str) -> str:
    """The first words of a text, on one line."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= TEXT_CHARS_MAX else line[: TEXT_CHARS_MAX - 1] + "…"


def output_text(response: Object) -> str:
    """The text of a response's messages, without reasoning and calls."""
    return "".join(
        part.get("text", "")
        for item in response.get("output", [])
        if item.get("type") == "message"
        for part in item.get("content", [])
    )
