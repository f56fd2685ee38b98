"""A call of one of OpenAI's tools that the client runs (client_tools.py), while the model writes it.

Its item has an object in place of a function call's text, and there are no delta events for it. So the item is sent
when the call is complete. It is parsed and checked in one piece, on the event loop, so its length is limited: 8 MB took
80 ms.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, parse_object
from antiphon_core.limits import CLIENT_CALL_CHARS_MAX
from antiphon_translator.output.item_kinds import CLIENT_CALLS, ItemKind
from antiphon_translator.parsing import surrogate_escapes
from antiphon_translator.prompt.client_tools import ClientTool


@dataclass(slots=True)
class ClientCall:
    """A call that is being written."""

    tool: ClientTool
    call_id: str
    _arguments: list[str] = field(default_factory=list)
    """The pieces of its JSON so far; none once it is too long."""
    _chars: int = 0

    def add(self, arguments: str) -> None:
        """Takes the next piece of the arguments."""
        self._chars += len(arguments)
        if self._chars <= CLIENT_CALL_CHARS_MAX:
            self._arguments.append(arguments)
        else:
            self._arguments.clear()

    def item(self) -> tuple[ItemKind, Object, bool]:
        """The kind of the item, its members, and whether the arguments are valid. Invalid ones, and those that are too
        long, are left out."""
        members = self.tool.members(self._read())
        shown = self.tool.blank_members() if members is None else members
        return CLIENT_CALLS[self.tool.call_type], {"call_id": self.call_id, **shown}, members is not None

    def _read(self) -> Object | None:
        if self._chars > CLIENT_CALL_CHARS_MAX:
            return None
        try:
            return parse_object(surrogate_escapes.replace_escapes("".join(self._arguments)).encode() or b"{}")
        except InvalidRequest:
            return None
