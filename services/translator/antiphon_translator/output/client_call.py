"""A call of one of OpenAI's tools that the client runs (client_tools.py), while the model writes it.

Its item has an object in place of a function call's text, and there are no delta events for it. So the item is sent
when the call is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, parse_object
from antiphon_translator.output.item_kinds import CLIENT_CALLS, ItemKind
from antiphon_translator.parsing import surrogate_escapes
from antiphon_translator.prompt.client_tools import ClientTool


@dataclass(slots=True)
class ClientCall:
    """A call that is being written. `arguments` are the pieces of its JSON so far."""

    tool: ClientTool
    call_id: str
    arguments: list[str] = field(default_factory=list)

    def item(self) -> tuple[ItemKind, Object, bool]:
        """The kind of the item, its members, and whether the arguments are valid. Invalid ones are left out."""
        members = self.tool.members(self._read())
        shown = self.tool.blank_members() if members is None else members
        return CLIENT_CALLS[self.tool.call_type], {"call_id": self.call_id, **shown}, members is not None

    def _read(self) -> Object | None:
        try:
            return parse_object(surrogate_escapes.replaced("".join(self.arguments)).encode() or b"{}")
        except InvalidRequest:
            return None
