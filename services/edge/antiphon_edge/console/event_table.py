"""The table of events as a module of the console's page: `python -m antiphon_edge.console.event_table`."""

from __future__ import annotations

import json
from pathlib import Path

from antiphon_core.events import KINDS, PART_EVENTS, TERMINAL, TEXTS, Target

FILE = Path(__file__).with_name("web") / "app" / "core" / "event-table.js"


def module() -> str:
    """The text of the module."""
    deltas = {text.delta: [_list_of(text.target), text.member] for text in TEXTS}
    parts = {each: _list_of(target) for target, types in PART_EVENTS.items() for each in types}
    items = [kind.type for kind in KINDS.values() if kind.target is Target.ITEM and kind.content]
    last = [kind.type for kind in KINDS.values() if kind.type in TERMINAL]
    return "\n".join(
        [
            "/** The events of a response. Written by `make docs` from antiphon_core.events. */",
            "",
            "/** For each delta the list of parts and the member that it extends; no list for a member of the item. */",
            f"export const DELTAS = /** @type {{Record<string, [string, string]>}} */ ({_write_value(deltas)});",
            "",
            "/** For each event with a part the list that has the part. */",
            f"export const PARTS = /** @type {{Record<string, string>}} */ ({_write_value(parts)});",
            "",
            f"export const ITEMS = new Set({_write_value(items)});",
            "",
            f"export const TERMINAL = new Set({_write_value(last)});",
            "",
        ]
    )


def _list_of(target: Target) -> str:
    return target.value[-1][0] if target is not Target.ITEM else ""


def _write_value(value: dict[str, object] | dict[str, str] | dict[str, list[str]] | list[str]) -> str:
    rows = (
        [f"  {json.dumps(name)}: {json.dumps(each)}," for name, each in value.items()]
        if isinstance(value, dict)
        else [f"  {json.dumps(each)}," for each in value]
    )
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([opening, *rows, closing])


if __name__ == "__main__":
    FILE.write_text(module(), "utf-8")
