"""A search of the web, while the model writes the call. Its item is sent when the call is whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, parse_object
from antiphon_core.limits import TOOL_ARGUMENTS_BYTES_MAX
from antiphon_core.request.server_items import SEARCH


@dataclass(slots=True)
class SearchCall:
    """A call that is being written. `members` are those of its item that its arguments do not decide."""

    members: Object
    _arguments: str = field(default="")

    def add(self, arguments: str) -> None:
        """Takes the next piece of the arguments. What is too long for any search is dropped."""
        self._arguments = (self._arguments + arguments)[:TOOL_ARGUMENTS_BYTES_MAX]

    def item(self) -> Object:
        """The item without its id. Without a readable query it has an empty one, for which nothing is searched."""
        query = _query(self._arguments)
        action = {"type": "search", "query": query, "queries": [query] if query else []}
        return {"type": SEARCH, "status": "in_progress", "action": action, "results": None, **self.members}


def _query(arguments: str) -> str:
    try:
        given: Any = parse_object(arguments.encode("utf-8", "replace"))
    except InvalidRequest:
        return ""
    queries = given.get("queries")
    query = given.get("query") or (queries[0] if isinstance(queries, list) and queries else "")
    return query.strip() if isinstance(query, str) else ""
