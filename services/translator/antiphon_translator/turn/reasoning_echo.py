"""The member `reasoning` of the response, with the values in effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon_core.jsons import Object
from antiphon_translator.templates import switches

VERBATIM = "detailed"
"""The value of `reasoning.summary` for a summary that leaves nothing out."""


def effective(asked: Object, chosen: Mapping[str, Any] | None, *, has_summary: bool) -> Object:
    """The member, as an object of its own; empty if the values in effect are those of the request. `chosen`: the
    switches of the chat template; None if its server takes none, so that the effort is the server's default."""
    given = asked.get("reasoning") or {}
    changed: Object = {}
    if given.get("effort") is not None:
        changed["effort"] = switches.echoed_effort(given["effort"], chosen) if chosen is not None else None
    if given.get("summary") or given.get("generate_summary"):
        changed["summary"] = VERBATIM if has_summary else None
    rest = {name: value for name, value in given.items() if name != "generate_summary"}
    return {"reasoning": rest | changed} if rest | changed != given else {}
