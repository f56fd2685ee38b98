"""A call of a tool of OpenAI's that the caller runs, while the model writes it.

Its item has an object where a function call has the text that the model wrote, and no events of its own for what is
added: it is told when it is whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon_core.errors import InvalidRequest
from antiphon_core.jsons import Object, parse_object
from antiphon_translator.output.item_kinds import CLIENT_CALLS, ItemKind
from antiphon_translator.prompt.client_tools import ClientTool


@dataclass(slots=True)
class ClientCall:
    """`arguments` are the pieces of JSON that came."""

    tool: ClientTool
    call_id: str
    arguments: list[str] = field(default_factory=list)

    def item(self) -> tuple[ItemKind, Object, bool]:
        """The kind of the item, its members, and whether the arguments are some that can be run."""
        members = self.tool.members(self._read())
        told = self.tool.blank_members() if members is None else members
        return CLIENT_CALLS[self.tool.call_type], {"call_id": self.call_id, **told}, members is not None

    def _read(self) -> Object | None:
        try:
            return parse_object("".join(self.arguments).encode() or b"{}")
        except InvalidRequest:
            return None
